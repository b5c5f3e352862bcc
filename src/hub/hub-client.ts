// The two functions of Hugging Face's client that are used. The build bundles this file with their code, so that the
// package, which is twelve megabytes with what it depends on, is not installed with ours.

export { listFiles, modelInfo } from "@huggingface/hub";
