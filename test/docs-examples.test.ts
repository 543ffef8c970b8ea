import assert from "node:assert/strict";
import { blocksOf, textOf } from "./support/documents/documents.ts";

const README = "README.md";
const WEBHOOKS = "docs/guides/webhooks.md";

describe("the documents", () => {
  it("show the example client as it is", () => {
    const shown = blocksOf(textOf(README)).find(({ info }) => info === "js")!.text;
    const [, ...code] = textOf("docs/examples/watch.mjs").split("\n");
    assert.equal(shown, code.join("\n"));
  });

  it("name the files of the game client, which are under 80 lines each", () => {
    const guide = textOf("docs/guides/game-client.md");
    for (const file of ["stay", "game"].map((name) => `examples/${name}.mjs`)) {
      assert.ok(guide.includes(`](../${file})`), file);
      assert.ok(textOf(`docs/${file}`).split("\n").length < 80, file);
    }
  });
});

describe("the receiver of webhooks", () => {
  it("is shown as it is", () => {
    const shown = blocksOf(textOf(WEBHOOKS)).find(({ info }) => info === "js")!.text;
    assert.equal(shown, textOf("docs/examples/webhook-receiver.mjs").split("\n").slice(1).join("\n"));
  });
});
