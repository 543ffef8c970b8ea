import assert from "node:assert/strict";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { openDomain } from "../support/domain/domain.ts";
import { addLargeRules } from "../support/rules/many-rules.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const NOTE = { publishedBy: "test" };
/** So many that what one of them sets off is not found in a transaction. */
const RULES = 200;
const LANES = 8;

describe("publishing among many rules", () => {
  const { database, domain } = memoryDomain();

  const aProject = async (rules: number): Promise<string> => {
    const projectId = await domain.addProject();
    await addLargeRules(domain.transact, projectId, rules);
    return projectId;
  };
  const aDraft = async (projectId: string, key: string, [heard, told]: readonly [string, string]) => {
    const rule = RuleDocument.parse({
      key,
      name: "A rule",
      triggers: [{ kind: "EVENT", eventTypes: [heard] }],
      actions: [{ type: "emit_event", eventType: told, channels: ["rules"] }],
    });
    await domain.transact((work) => createRule(work, projectId, rule, "test"));
  };
  /** @returns how often its transaction was run */
  const publish = async (projectId: string, key: string): Promise<number> => {
    let runs = 0;
    await domain.transact((work) => {
      runs++;
      return publishRule(work, projectId, key, NOTE);
    });
    return runs;
  };

  it("looks outside of the transaction for what sets what off, once for each version", async () => {
    const projectId = await aProject(RULES);
    await aDraft(projectId, "mine", ["shot.on", "seen"]);
    assert.equal(await publish(projectId, "mine"), 2);
    const few = await aProject(1);
    await aDraft(few, "mine", ["shot.on", "seen"]);
    assert.equal(await publish(few, "mine"), 1);
  });

  it("goes through in many lanes at once, none of which looks in vain", async () => {
    const projectId = await aProject(RULES);
    await aDraft(projectId, "mine", ["shot.on", "seen"]);
    const runs = await Promise.all(Array.from({ length: LANES }, () => publish(projectId, "mine")));
    // To meet another, to look outside, and to publish.
    assert.ok(Math.max(...runs) <= 3 && Math.max(...runs) > 1, runs.join());
  });

  it("finds a circle that was closed while it looked", async () => {
    const projectId = await aProject(RULES);
    await aDraft(projectId, "a", ["x", "y"]);
    await aDraft(projectId, "b", ["y", "x"]);
    const other = openDomain(database);
    let runs = 0;
    const publishing = domain.transact(async (work) => {
      runs++;
      return publishRule(work, projectId, "a", NOTE);
    });
    const both = await Promise.allSettled([
      publishing,
      other.transact((work) => publishRule(work, projectId, "b", NOTE)),
    ]);
    const refused = both.filter((one) => one.status === "rejected");
    assert.deepEqual(
      refused.map(({ reason }) => (reason as { reason: string }).reason),
      ["RULE_LOOP"],
    );
    assert.ok(runs <= 4);
  });
});
