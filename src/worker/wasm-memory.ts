// A memory of WebAssembly, of which TypeScript knows as a part of browsers only.

export interface WasmMemory {
  readonly buffer: ArrayBuffer;
  grow(this: WasmMemory, pages: number): number;
}
