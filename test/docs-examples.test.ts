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

  it("show how the game client stays in a room as it is, each of its files in under 80 lines", () => {
    const shown = blocksOf(textOf("docs/guides/game-client.md")).find(({ info }) => info === "js")!.text;
    const [stay = "", game = ""] = ["stay", "game"].map((name) => textOf(`docs/examples/${name}.mjs`));
    assert.equal(shown, stay.split("\n").slice(1).join("\n"));
    for (const text of [stay, game]) assert.ok(text.split("\n").length < 80);
  });
});

describe("the receiver of webhooks", () => {
  it("is shown as it is", () => {
    const shown = blocksOf(textOf(WEBHOOKS)).find(({ info }) => info === "js")!.text;
    assert.equal(shown, textOf("docs/examples/webhook-receiver.mjs").split("\n").slice(1).join("\n"));
  });
});
