// The progress of a server's start, for /health: load balancers send requests once it is "ok". Earlier requests are
// served as well.

/** The states of a starting server. */
type ReadinessStatus = "loading model" | "warming up" | "ok";

/** The state of a starting server, for /health. */
export class Readiness {
  #status: ReadinessStatus = "loading model";

  get status(): ReadinessStatus {
    return this.#status;
  }

  become(status: ReadinessStatus): void {
    this.#status = status;
  }
}
