import assert from "node:assert/strict";
import { join } from "node:path";
import { openEmbeddedDatabase } from "../../src/platform/database.ts";
import { type CommandResult, laurel } from "../support/processes/command.ts";
import { openDomain } from "../support/domain/domain.ts";
import { migratedDataDir } from "../support/processes/process.ts";

describe("laurel reconcile", () => {
  let dir: Awaited<ReturnType<typeof migratedDataDir>>;
  before(async () => {
    dir = await migratedDataDir();
    const database = await openEmbeddedDatabase(join(dir.path, "pglite"));
    const domain = openDomain(database);
    const projectId = await domain.addProject();
    await domain.grant(projectId, await domain.addPlayer(projectId, "ada"), 150);
    await domain.sql`update players set xp = 151`;
    await database.close();
  });
  after(() => dir.remove());

  const run = (...args: string[]): Promise<CommandResult> =>
    laurel(["reconcile", ...args], { DATA_DIR: dir.path, DEMO: "off", LOG_LEVEL: "error" });

  it("answers 1 for what it finds, repairs it when told to, and then answers 0", async () => {
    const found = await run();
    assert.equal(found.code, 1, found.text);
    assert.match(found.text, /found\s+I1 .*the player has 151 XP, the ledger says 150/);
    const repaired = await run("--repair", "--json");
    assert.equal(repaired.code, 0, repaired.text);
    const lines = repaired.text.trim().split("\n");
    const [finding, sum] = [JSON.parse(lines[0]!), JSON.parse(lines.at(-1)!)];
    assert.deepEqual([finding.invariant, finding.isRepaired], ["I1", true]);
    assert.deepEqual(sum, { projects: 1, players: 1, findings: 1, repaired: 1, open: 0 });
    const last = await run();
    assert.deepEqual([last.code, last.text.trim()], [0, "1 players of 1 projects: 0 findings, 0 repaired"]);
  });

  it("does not say that all is well of a project that is not there", async () => {
    const unknown = "01890000-0000-7000-8000-000000000000";
    const { code, text } = await run("--project", unknown);
    assert.equal(code, 1, text);
    assert.match(text, new RegExp(`the project ${unknown} not found`));
  });

  it("refuses a project that is no UUID", async () => {
    const refused = await run("--project", "mine");
    assert.equal(refused.code, 2);
    assert.match(refused.text, /UUID/);
  });
});
