// The blocks of the README and of docs/ that use the AI SDK, with the packages and the Node of test/server/clients.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sdkNode, sdkUnavailableReason } from "../library/ai/sdk-node.js";
import { packageFile } from "../server/clients/session.js";
import { DOCUMENT_PROGRAMS } from "../support/document-blocks.js";
import { DocumentProject, usesAiSdk } from "./document-project.js";

const programs = DOCUMENT_PROGRAMS.filter(usesAiSdk);
const skipped = sdkUnavailableReason === undefined ? "" : ` (skipped: ${sdkUnavailableReason})`;

describe.skipIf(sdkUnavailableReason !== undefined)(`programs of the documents with the AI SDK${skipped}`, () => {
  let project: DocumentProject;
  beforeAll(async () => {
    project = await DocumentProject.create(programs, {
      ai: packageFile("ai-7"),
      "@ai-sdk/provider": packageFile("ai-7", "node_modules", "@ai-sdk", "provider"),
    });
  }, 120_000);
  afterAll(() => project[Symbol.asyncDispose]());

  it("are in the README and on the SDK's page", () => {
    expect(programs.map(({ page }) => page)).toEqual(expect.arrayContaining(["README.md", "docs/ai-sdk.md"]));
  });

  it.each(programs)("$page:$line runs as printed", async (program) => {
    const { status, stderr } = await project.run(program, sdkNode);
    expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
  });
});
