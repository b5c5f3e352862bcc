// How far a server's start has come, for /health: load balancers send requests once it is "ok". Requests that come sooner
// are served all the same.

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
