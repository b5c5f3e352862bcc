// What pulling, listing and removing models takes and returns: the public types.

import type { KvCacheType } from "../backends/contract.js";

/** How a download proceeds. */
export interface PullProgress {
  /**
   * `resolving`: asking the hub; `inspecting`: reading the header; `waiting`: another process downloads the same file;
   * `downloading`; `verifying`: comparing the checksum.
   */
  readonly phase: "resolving" | "inspecting" | "waiting" | "downloading" | "verifying";
  /** The model's name. */
  readonly model: string;
  /** Bytes of all files of the model that are on disk. */
  readonly doneBytes: number;
  /** Bytes of all files together; 0 while they are not known. */
  readonly totalBytes: number;
  /** Files that are complete, and files in all. */
  readonly doneFiles: number;
  readonly totalFiles: number;
  readonly bytesPerSecond: number;
  /** The time that the rest will take at this rate; undefined while it is not known. */
  readonly remainingMs: number | undefined;
}

/** The memory that a model would need on this device, and what would fit if it does not. */
export interface PreviewedMemory {
  readonly backend: string;
  /** The device in words. */
  readonly device: string;
  readonly fits: boolean;
  readonly neededBytes: number;
  readonly availableBytes: number;
  readonly weightBytes: number;
  readonly kvCacheBytes: number;
  readonly scratchBytes: number;
  /** The context length that was counted. */
  readonly tokens: number;
  readonly kvCacheType: KvCacheType;
  /** A context length that would fit. */
  readonly fittingTokens?: number;
  /** A smaller KV cache type with which the whole context would fit. */
  readonly fittingKvCacheType?: KvCacheType;
  /** A quantisation of the weights with which the whole context would fit. */
  readonly fittingWeightType?: string;
  /** The approximate size of the weights in that quantisation. */
  readonly fittingWeightBytes?: number;
}

/** What is known of a model before it is downloaded. */
export interface ModelPreview {
  /** The model's name with its file. */
  readonly name: string;
  readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
  readonly sizeBytes: number;
  /** Bytes that are not on disk yet. */
  readonly missingBytes: number;
  /** The model's family; undefined if the file does not state it. */
  readonly architecture?: string;
  /** The longest context that the model was made for. */
  readonly contextLength?: number;
  /** The block types of the weights, the largest share first. */
  readonly blockTypes: readonly { readonly name: string; readonly sizeBytes: number }[];
  /** Whether the model is supported and fits this device. */
  readonly runs: boolean;
  /** Why it would not run, and what would. */
  readonly problem?: string;
  /** Absent if the model is not supported. */
  readonly memory?: PreviewedMemory;
}

/** The device that a preview is for. */
export interface PreviewModelOptions {
  /** What would compute the model; "auto", the default, is the best backend of this machine. */
  readonly backend?: "auto" | "hip" | "cuda" | "cpu" | "reference";
  /** Context length to count; by default the model's own, but at most 4,096. */
  readonly contextTokens?: number;
  /** Type of the KV cache; by default the one that the backend prefers. */
  readonly kvCacheType?: KvCacheType;
  /** CPU threads. */
  readonly threads?: number;
  /** Name or number of the GPU. */
  readonly device?: string | number;
  /** Aborts the requests. */
  readonly signal?: AbortSignal;
}

/** Options of `pullModel`. */
export interface PullModelOptions extends PreviewModelOptions {
  /** Uses only what is in the cache, as `HF_HUB_OFFLINE=1` does. */
  readonly offline?: boolean;
  /** Downloads a model even if it is not supported or does not fit this device. */
  readonly ignoreMemoryCheck?: boolean;
  /** Called when the header has been read, before the download. */
  readonly onPreview?: (preview: ModelPreview) => void;
  /** Called as the download proceeds, several times a second. */
  readonly onProgress?: (progress: PullProgress) => void;
}

/** A model that is on disk. */
export interface PulledModel {
  /** The path of the file, or of the first part. */
  readonly path: string;
  /** A short name for people and for servers, such as `Qwen3-8B-Q4_K_M`. */
  readonly label: string;
}

/** A model in a cache on this machine. */
export interface ListedModel {
  /** The name under which the commands and `loadModel` find it. */
  readonly name: string;
  readonly source: "hub" | "url" | "ollama";
  /** The path of the file, or of the first part; undefined for an unfinished download. */
  readonly path: string | undefined;
  readonly sizeBytes: number;
  /** Whether the download was interrupted; pulling the model again resumes it. */
  readonly unfinished: boolean;
  /** When the file was last written. */
  readonly modified: Date;
}

/** What removing a model has freed. */
export interface RemovedModel {
  readonly removedFiles: readonly string[];
  readonly freedBytes: number;
}
