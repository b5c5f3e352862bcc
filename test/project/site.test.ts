// The documentation site: its checks find links that lead nowhere, in documents and in what was built; every document has its
// place in the navigation; the plots are drawn from the numbers. site.full.test.ts builds it.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { rocmforge } from "../cli/command-line.js";
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const script = async <Exports>(name: string): Promise<Exports> => (await import(join(ROOT, name))) as Exports;

const { brokenLinks, documentsOf, slugOf } = await script<{
  brokenLinks(root: string, pages?: readonly string[]): string[];
  documentsOf(root: string): string[];
  slugOf(text: string): string;
}>("scripts/document-links.mjs");
const { siteProblems } = await script<{ siteProblems(folder: string, base?: string): string[] }>(
  "scripts/build-site.mjs",
);
const { benchmarkPlots } = await script<{ benchmarkPlots(root: string): ReadonlyMap<string, string> }>(
  "scripts/benchmark-plots.mjs",
);
const { SECTIONS, sitePage } = await script<{
  readonly SECTIONS: readonly { readonly entries: readonly { readonly text: string; readonly page: string }[] }[];
  sitePage(page: string): string;
}>("site/navigation.mjs");

function folderWith(files: Readonly<Record<string, string>>): TemporaryFolder {
  const folder = new TemporaryFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(folder.file(name)), { recursive: true });
    writeFileSync(folder.file(name), text);
  }
  return folder;
}

describe("links of documents", () => {
  it("lead somewhere, in every document", () => {
    expect(documentsOf(ROOT)).toContain("docs/guide/library.md");
    expect(brokenLinks(ROOT)).toEqual([]);
  });

  it("spell anchors as GitHub does", () => {
    expect(slugOf("Ignored and refused fields")).toBe("ignored-and-refused-fields");
    expect(slugOf("Ollama's API")).toBe("ollamas-api");
    expect(slugOf("ERROR_CODES, `429` – twice")).toBe("error_codes-429--twice");
  });

  it("rejects a missing file, a missing heading and a way out of the repository, with their lines", () => {
    using folder = folderWith({
      "README.md": [
        "# One",
        "[good](docs/two.md#the-second), [twice](#one-1), [elsewhere](https://example.org/x)",
        "[no file](docs/three.md) and `[code](nowhere.md)`",
        "[no heading](docs/two.md#third)",
        "[out](../secret.md) <img src='x.png'> <img src=\"x.png\">",
        "```md",
        "[in a block](nowhere.md)",
        "```",
        "<!-- [in a comment](nowhere.md) -->",
        "# One",
        "[a picture's heading](docs/picture.png#top)",
      ].join("\n"),
      "docs/two.md": "## The *second*\n",
      "docs/picture.png": "",
    });
    expect(brokenLinks(folder.path, ["README.md", "docs/two.md"])).toEqual([
      "README.md:3: docs/three.md: docs/three.md does not exist",
      "README.md:4: docs/two.md#third: docs/two.md has no heading #third",
      "README.md:5: ../secret.md: is not a path inside the repository",
      "README.md:5: x.png: x.png does not exist",
      "README.md:11: docs/picture.png#top: docs/picture.png has no headings",
    ]);
  });
});

describe("the built site's check", () => {
  it("rejects dead links, dead anchors, missing pictures and whatever another server would send", () => {
    using folder = folderWith({
      "index.html": [
        '<a href="/guide/page.html#there">good</a> <a href="/guide/page">good</a> <a href="https://example.org">good</a>',
        '<a href="/guide/page.html#missing">dead</a> <a href="/gone.html">dead</a> <a href="#nowhere">dead</a>',
        '<img src="/assets/gone.svg"><script src="https://cdn.example.org/x.js"></script>',
      ].join("\n"),
      "guide/page.html": '<h2 id="there">There</h2> <a href="../index.html">good</a>',
      "assets/style.css": "@import url(https://fonts.example.org/inter.css); a { background: url(data:,) }",
    });
    expect(siteProblems(folder.path)).toEqual([
      "index.html: loads https://cdn.example.org/x.js",
      "index.html: /assets/gone.svg does not exist",
      "index.html: /guide/page.html#missing has no element #missing",
      "index.html: /gone.html does not exist",
      "index.html: #nowhere has no element #nowhere",
      "assets/style.css: loads https://fonts.example.org/inter.css",
    ]);
  });

  it("rejects links outside of the base", () => {
    using folder = folderWith({ "index.html": '<a href="/docs/">good</a> <a href="/other/">outside</a>' });
    expect(siteProblems(folder.path, "/docs/")).toEqual(["index.html: /other/ is outside of /docs/"]);
  });
});

describe("the navigation", () => {
  const listed = SECTIONS.flatMap(({ entries }) => entries.map(({ page }) => page));

  it("has every document once; decisions are reached from their index", () => {
    const documents = documentsOf(ROOT).filter((page) => !/^docs\/adr\/\d/.test(page));
    expect(listed.toSorted()).toEqual(documents.toSorted());
  });

  it("gives every document an address of its own", () => {
    expect(new Set(documentsOf(ROOT).map(sitePage)).size).toBe(documentsOf(ROOT).length);
    expect(["README.md", "docs/adr/README.md", "CHANGELOG.md", "docs/guide/tools.md"].map(sitePage)).toEqual([
      "index.md",
      "adr/index.md",
      "changelog.md",
      "guide/tools.md",
    ]);
  });
});

describe("troubleshooting", () => {
  const entries = readFileSync(join(ROOT, "docs", "troubleshooting.md"), "utf8")
    .split(/^### /m)
    .slice(1)
    .map((entry) => entry.split(/^## /m)[0]);

  it("says for every symptom why, what to do, and which command shows it", () => {
    expect(entries.length).toBeGreaterThan(30);
    const parts = ["- **Why**: ", "- **Here**: ", "- **See it**: "];
    const incomplete = entries.filter((entry) => !parts.every((part) => entry.split(part).length === 2));
    expect(incomplete.map((entry) => entry.split("\n")[0])).toEqual([]);
  });

  it("names only commands and options that exist", async () => {
    const commands = entries.flatMap((entry) => entry.match(/(?<=`)(?:npx )?rocmforge [a-z]+[^`]*(?=`)/g) ?? []);
    expect(commands.length).toBeGreaterThan(20);
    const names = new Set(commands.map((command) => /rocmforge (?<name>[a-z]+)/.exec(command)?.groups?.["name"] ?? ""));
    for (const name of names) {
      const { status, stdout } = await rocmforge(["help", name]);
      expect({ name, status }).toEqual({ name, status: 0 });
      const used = commands
        .filter((command) => new RegExp(`rocmforge ${name}\\b`).test(command))
        .flatMap((command) => command.match(/(?<= )--?[a-z][a-z-]*/g) ?? []);
      expect(used.filter((option) => !new RegExp(`(?:^|[ ,])${option}\\b`, "m").test(stdout))).toEqual([]);
    }
  });
});

describe("the plots of benchmarks", () => {
  const FOLDER = join(ROOT, "docs", "images", "plots");
  const plots = benchmarkPlots(ROOT);

  it("are up to date (`npm run docs -- --references` draws them)", () => {
    expect(readdirSync(FOLDER).toSorted()).toEqual([...plots.keys()].toSorted());
    for (const [name, svg] of plots) expect(readFileSync(join(FOLDER, name), "utf8")).toBe(svg);
  });

  it("are small, work in light and dark, name hardware and command, and are shown on the page", () => {
    const page = readFileSync(join(ROOT, "docs", "benchmarks.md"), "utf8");
    for (const [name, svg] of plots) {
      expect(svg.length).toBeLessThan(4000);
      expect(svg).toContain("prefers-color-scheme:dark");
      expect(svg).toMatch(/class="n"[^>]*>[^<]*(?:EPYC|H200)/);
      expect(svg).toMatch(/class="c"[^>]*>(?:npm run|rocmforge) bench/);
      expect(page).toContain(`(images/plots/${name})`);
    }
  });

  it("have the figures of the page", () => {
    const shown = (name: string): string => (plots.get(name) ?? "").replaceAll(/<[^>]+>/g, "\n");
    expect(shown("gpu-batches.svg")).toMatch(/64 sequences\s+13,978\s+4,465/);
    const page = readFileSync(join(ROOT, "docs", "benchmarks.md"), "utf8");
    // Its ratio to llama.cpp is in the same cell; 296 tok/s are llama.cpp's.
    const ours = /^\| Qwen3-30B-A3B \| (?<figure>[\d,]+) \(2\.\d+\) \|/m.exec(page)?.groups?.["figure"] ?? "none";
    expect(shown("gpu-mixtures-decode.svg")).toMatch(new RegExp(`Qwen3-30B-A3B\\s+${ours}\\s+29\\d`));
    expect(shown("cpu-decode.svg")).toMatch(/Q4_K_M\s+37\.9\s+28\.8/);
    expect(shown("cpu-serving.svg")).toMatch(/eight requests\s+150\.7/);
  });
});
