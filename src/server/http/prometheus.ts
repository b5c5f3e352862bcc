// The metrics of prom-client that are used. The build bundles this file with their code, so that the package and what it
// depends on, five megabytes, are not installed with ours.

export { Counter, Gauge, Histogram, Registry } from "prom-client";
