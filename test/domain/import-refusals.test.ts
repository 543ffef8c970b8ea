import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Caller } from "../../src/domain/kernel/caller.ts";
import { readConfigDocument } from "../../src/domain/registries/configuration/document.ts";
import { importConfig } from "../../src/domain/registries/configuration/import.ts";
import { listen, memoryDomain } from "../support/domain/domain.ts";

const SMALL = 100;

type Document = Record<string, unknown[]>;

const keyOf = (n: number): string => `k${String(n).padStart(4, "0")}`;
const listOf = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

/** Rewards of which every other one gives the next, which stands behind it. */
const rewards = (count: number) =>
  listOf(count, (n) => {
    const bundle = n % 2 === 0 ? { rewards: [{ rewardKey: keyOf(n + 1) }] } : { xp: 1 };
    return { key: keyOf(n), name: "R", kind: "BUNDLE", bundle };
  });

const badges = (count: number) =>
  listOf(count, (n) => {
    return {
      key: keyOf(n),
      name: "B",
      tiers: [{ tier: 1, rewards: { rewards: [{ rewardKey: keyOf(n) }] } }],
    };
  });

const rules = (count: number) =>
  listOf(count, (n) => {
    const conditions = listOf(5, (value) => ({
      type: "event_property",
      path: `p${value}`,
      op: "gte",
      value,
    }));
    const triggers = [{ kind: "EVENT", eventTypes: [`type${n % 20}`] }];
    const actions = [{ type: "update_badge", badgeKey: keyOf(n), operation: "AWARD" }];
    return {
      status: "ACTIVE",
      rule: { key: keyOf(n), name: "Rule", triggers, conditions: { all: conditions }, actions },
    };
  });

const aDocument = (count: number): Document => ({
  rewards: rewards(count),
  badges: badges(count),
  rules: rules(count),
});

describe("an import of many definitions", () => {
  const { database, domain } = memoryDomain();
  let statements: string[];
  before(async () => {
    statements = await listen(database);
  });

  /** @returns what it took: statements, and CPU in ms */
  const take = async (
    projectId: string,
    sections: Document,
    changes: number,
    { signal } = new AbortController(),
  ) => {
    const document = await readConfigDocument({ format: "laurel/1", ...sections });
    const found = await domain.transact(({ db }) =>
      sql<{ id: string }>`select tenant_id as id from projects where id = ${projectId}`.execute(db),
    );
    const tenantId = found.rows[0]!.id;
    const caller = { kind: "user", userId: projectId, tenantId, role: "OWNER" } as unknown as Caller;
    const questions = new Map();
    const given = { document, questions, prune: true, tenantId, caller, actor: "test", signal };
    const before = statements.length;
    const start = process.cpuUsage();
    const made = await domain.transact((work) => importConfig(work, projectId, given));
    const { user, system } = process.cpuUsage(start);
    assert.equal(made.length, changes);
    return { statements: statements.length - before, cpuMs: (user + system) / 1_000 };
  };

  it("ends when nobody waits for it any more, and writes nothing", async () => {
    const projectId = await domain.addProject();
    const presence = new AbortController();
    const importing = take(projectId, aDocument(SMALL), 3 * SMALL, presence);
    setImmediate(() => presence.abort(new Error("the client has gone")));
    await assert.rejects(importing, /the client has gone/);
    await take(projectId, { rewards: rewards(2) }, 2);
  });

  it("names a definition whose names lead in a ring, and writes nothing", async () => {
    const projectId = await domain.addProject();
    await take(projectId, { rewards: rewards(2) }, 2);
    const [first] = rewards(2);
    const back = { ...first, key: keyOf(1), bundle: { rewards: [{ rewardKey: keyOf(0) }] } };
    await assert.rejects(
      take(projectId, { rewards: [first, back] }, 1),
      /rewards k0001: bundle: gives itself: reward k0000 gives reward k0001 gives reward k0000/,
    );
  });

  it("names the last of the rules that set one another off without end", async () => {
    const projectId = await domain.addProject();
    const rule = (key: string, hears: string, sends: string) => ({
      status: "ACTIVE",
      rule: {
        key,
        name: `Rule ${key}`,
        triggers: [{ kind: "EVENT", eventTypes: [hears] }],
        actions: [{ type: "emit_event", eventType: sends, channels: ["rules"] }],
      },
    });
    const ring = [rule("a", "one", "two"), rule("b", "two", "one"), rule("c", "three", "four")];
    await assert.rejects(take(projectId, { rules: ring }, 3), (error: Error & { reason?: string }) => {
      assert.match(error.message, /^rules b: triggers: can set itself off: /);
      return error.reason === "RULE_LOOP";
    });
    const left = await domain.transact(({ db }) =>
      sql`select 1 from rules where project_id = ${projectId}`.execute(db),
    );
    assert.equal(left.rows.length, 0);
  });
});
