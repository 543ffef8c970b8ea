import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import { runSteps, stepsOf } from "../support/documents/documents.ts";
import { madeOnce, skipWithout } from "../support/made.ts";

const START = "docs/guides/getting-started.md";
const TEST_CLOCK = "docs/guides/test-clock.md";

describe("the commands of the guide to the clock of a sandbox", function () {
  before(function () {
    skipWithout(this, "bash", "curl");
  });
  const api = madeOnce(startApp);

  it("play a week, of which the project beside it sees nothing", async () => {
    assert.ok(stepsOf(TEST_CLOCK).length > 2);
    const environment = { PATH: process.env["PATH"], HOME: process.env["HOME"], URL: api.url };
    const { KEY = "", LIVE_KEY = "" } = await runSteps(TEST_CLOCK, await runSteps(START, environment));
    const { body } = await api.get("/api/v1/players/ext:lou", { key: KEY });
    assert.equal(body.xp, 20);
    assert.equal((await api.get("/api/v1/players/ext:lou", { key: LIVE_KEY })).status, 404);
  });
});
