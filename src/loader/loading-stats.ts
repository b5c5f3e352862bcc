// How far a model's loading has come, as numbers and as events.

/** Of the tensors that were ever asked for through a loader, or of one plan's tensors. */
export interface LoadingStats {
  readonly totalTensors: number;
  readonly loadedTensors: number;
  readonly unloadedTensors: number;
  readonly loadingTensors: number;
  readonly failedTensors: number;
  /** Tensors that the device cache holds, of this plan or not. */
  readonly cachedTensors: number;
  /** Sizes as stored in the file. */
  readonly totalBytes: number;
  readonly loadedBytes: number;
  /** Bytes that the cached tensors take on the device. */
  readonly cachedBytes: number;
}

export interface LoadingProgress {
  readonly tensor: string;
  readonly loadedTensors: number;
  readonly totalTensors: number;
  readonly loadedBytes: number;
  readonly totalBytes: number;
}
