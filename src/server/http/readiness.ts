// The progress of a server's start, for /health: load balancers send requests once it is "ok". Earlier requests are
// served as well.

export type ReadinessStatus = "loading model" | "warming up" | "ok";

export class Readiness {
  #status: ReadinessStatus = "loading model";

  get status(): ReadinessStatus {
    return this.#status;
  }

  become(status: ReadinessStatus): void {
    this.#status = status;
  }
}
