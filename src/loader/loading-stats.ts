// How much of a model has been loaded, as statistics and as progress events.

/** Statistics of all tensors requested through a loader, or of one plan's tensors. */
export interface LoadingStats {
  readonly totalTensors: number;
  readonly loadedTensors: number;
  readonly unloadedTensors: number;
  readonly loadingTensors: number;
  readonly failedTensors: number;
  /** Tensors in the device cache, whichever plan they belong to. */
  readonly cachedTensors: number;
  /** Sizes as stored in the file. */
  readonly totalBytes: number;
  readonly loadedBytes: number;
  /** Bytes that the cached tensors occupy on the device. */
  readonly cachedBytes: number;
}

/** Progress of loading, reported after each tensor that reaches the device. */
export interface LoadingProgress {
  readonly tensor: string;
  readonly loadedTensors: number;
  readonly totalTensors: number;
  readonly loadedBytes: number;
  readonly totalBytes: number;
}
