import assert from "node:assert/strict";
import type { Caller } from "../../src/domain/kernel/caller.ts";
import { readConfigDocument } from "../../src/domain/registries/configuration/document.ts";
import { importConfig } from "../../src/domain/registries/configuration/import.ts";
import { patchDefinition } from "../../src/domain/economy/definitions/definitions.ts";
import { DEFINITION_KINDS } from "../../src/domain/registries/definition-kinds.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { syncSandbox } from "../../src/domain/registries/configuration/sandbox-sync.ts";
import {
  archiveRule,
  pauseRule,
  publishRule,
  resumeRule,
  rollbackRule,
  shadowRule,
} from "../../src/domain/rules/lifecycle/publishing.ts";
import { getRule, patchRule } from "../../src/domain/rules/rules.ts";
import { addLargeRules } from "../support/rules/rules-api.ts";
import { define, memoryDomain, publish } from "../support/domain/domain.ts";

const LOOP = { code: "VALIDATION_ERROR", reason: "RULE_LOOP" };
const NOTE = { publishedBy: "test" };
const on = (...eventTypes: string[]) => ({ triggers: [{ kind: "EVENT", eventTypes }] });
const does = (...actions: Json[]) => ({ actions });
const echo = (heard: string, told: string) => ({
  ...on(heard),
  ...does({ type: "emit_event", eventType: told, channels: ["rules"] }),
});
const counts = (eventType: string) => ({ eventTypes: [eventType], aggregate: "count" });
const XP = { type: "grant_xp", amount: 1 };
const COINS = { currencies: { coins: 5 } };

/** What is there, with a rule, and what closes a loop: a definition that is made, or changed. */
type Way = { there?: [kind: string, document: Json][]; rule: Json } & (
  | { made: [kind: string, document: Json] }
  | { changed: [kind: string, key: string, changes: Json] }
);

const gold = { key: "gold", name: "Gold", tiers: [{ tier: 1, rewards: {} }] };
const daily = { key: "daily", name: "Daily", qualify: { parts: [{ metric: counts("player.xp_granted") }] } };
const chest = { key: "chest", name: "Chest", kind: "BUNDLE", bundle: { lives: 1 } };

const WAYS: Record<string, Way> = {
  "a reward's bundle": {
    there: [["reward", chest]],
    rule: { ...on("player.currency_granted"), ...does({ type: "grant_reward", rewardKey: "chest" }) },
    changed: ["reward", "chest", { bundle: COINS }],
  },
  "what a badge's tier gives": {
    there: [["badge", gold]],
    rule: {
      ...on("player.lives_changed"),
      ...does({ type: "update_badge", badgeKey: "gold", operation: "AWARD" }),
    },
    changed: ["badge", "gold", { tiers: [{ tier: 1, rewards: { lives: 1 } }] }],
  },
  "a badge that follows a metric": {
    rule: { ...on("player.badge_earned"), ...does(XP) },
    made: [
      "badge",
      {
        ...gold,
        tiers: [{ tier: 1, threshold: 5, rewards: {} }],
        progressMetric: counts("player.xp_granted"),
      },
    ],
  },
  "a segment that follows XP, which a rule takes away": {
    rule: { ...on("player.segment_left"), ...does({ type: "grant_xp", amount: -1 }) },
    made: [
      "segment",
      {
        key: "rich",
        name: "Rich",
        kind: "DYNAMIC",
        definition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 5 }] },
      },
    ],
  },
  "what a level gives": {
    rule: { ...on("player.currency_granted"), ...does(XP) },
    made: ["level", { key: "2", name: "Two", rewards: COINS }],
  },
  "a streak that counts": {
    rule: { ...on("player.streak_extended"), ...does(XP) },
    made: ["streak", daily],
  },
  "what a streak's milestone gives": {
    there: [["streak", daily]],
    rule: { ...on("player.currency_granted"), ...does(XP) },
    changed: ["streak", "daily", { milestones: [{ length: 1, rewards: COINS }] }],
  },
  "a segment's conditions": {
    rule: { ...on("player.segment_entered"), ...does({ type: "adjust_lives", amount: 1 }) },
    made: [
      "segment",
      {
        key: "alive",
        name: "Alive",
        kind: "DYNAMIC",
        definition: { all: [{ type: "player_property", field: "lives", op: "gte", value: 1 }] },
      },
    ],
  },
};

describe("a change by which rules could set one another off without end", () => {
  const { domain } = memoryDomain();

  const patch = async (projectId: string, [name, ref, changes]: [string, string, Json]): Promise<void> => {
    const kind = DEFINITION_KINDS.find((one) => one.kind === name)!;
    await domain.transact((work) => patchDefinition(work, projectId, kind, { ref, changes }));
  };
  const tenantOf = async (projectId: string): Promise<string> => {
    const found = await domain.sql<{ id: string }>`
      select tenant_id as id from projects where id = ${projectId}`;
    return found[0]!.id;
  };
  const importing = async (projectId: string, sections: Json): Promise<unknown> => {
    const tenantId = await tenantOf(projectId);
    const document = await readConfigDocument({ format: "laurel/1", ...sections });
    const caller = { kind: "user", userId: projectId, tenantId, role: "OWNER" } as unknown as Caller;
    const { signal } = new AbortController();
    const questions = new Map();
    const given = { document, questions, prune: false, tenantId, caller, actor: "test", signal };
    return domain.transact((work) => importConfig(work, projectId, given));
  };
  const prepared = async ({ there = [], rule }: Way, others = 0): Promise<string> => {
    const projectId = await domain.addProject();
    if (others > 0) await addLargeRules(domain.transact, projectId, others);
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
    for (const [kind, document] of there) await define(domain, projectId, kind, document);
    await publish(domain, projectId, { key: "fires", ...rule });
    return projectId;
  };
  const close = (projectId: string, way: Way): Promise<void> =>
    "made" in way ? define(domain, projectId, ...way.made) : patch(projectId, way.changed);
  /** The same by a document. */
  const closeByImport = (projectId: string, way: Way): Promise<unknown> => {
    const of = (kind: string) => DEFINITION_KINDS.find((one) => one.kind === kind)!.plural;
    if ("made" in way) return importing(projectId, { [of(way.made[0])]: [way.made[1]] });
    const [kind, key, changes] = way.changed;
    const document = way.there!.find(([, one]) => one["key"] === key)![1];
    return importing(projectId, { [of(kind)]: [{ ...document, ...changes }] });
  };

  for (const [name, way] of Object.entries(WAYS)) {
    it(`is refused where it is ${name}, by itself and in an import, and leaves all as it was`, async () => {
      const projectId = await prepared(way);
      await assert.rejects(close(projectId, way), LOOP);
      await assert.rejects(closeByImport(projectId, way), {
        ...LOOP,
        message: /can set itself off: .*fires/,
      });
      // Without the rule nothing is wrong with it.
      await domain.transact((work) => pauseRule(work, projectId, "fires"));
      await close(projectId, way);
      await assert.rejects(
        domain.transact((work) => resumeRule(work, projectId, "fires")),
        LOOP,
      );
    });
  }

  it("is refused where a rule is published, rolled back, resumed or put into SHADOW", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "a", ...echo("x", "y") });
    await publish(domain, projectId, { key: "b", ...echo("y", "x"), limits: { cooldownSeconds: 5 } });
    const { draftVersion } = await domain.transact((work) => getRule(work, projectId, "b"));
    const open = { draftVersion, limits: { perPlayer: [], global: [], budgets: [] } };
    await domain.transact((work) => patchRule(work, projectId, "b", open));
    await assert.rejects(
      domain.transact((work) => publishRule(work, projectId, "b", NOTE)),
      LOOP,
    );
    await domain.transact((work) => pauseRule(work, projectId, "a"));
    await domain.transact((work) => publishRule(work, projectId, "b", NOTE));
    for (const act of [resumeRule, shadowRule])
      await assert.rejects(
        domain.transact((work) => act(work, projectId, "a")),
        LOOP,
      );
    const back = { version: 1, publishedBy: "test" };
    await assert.rejects(
      domain.transact((work) => rollbackRule(work, projectId, "a", back)),
      LOOP,
    );
  });

  it("is refused also where a limit of a rule ends another way round, and not this one", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "a", ...echo("x", "y") });
    await publish(domain, projectId, { key: "ends", ...echo("y", "x"), limits: { cooldownSeconds: 5 } });
    await assert.rejects(publish(domain, projectId, { key: "b", ...echo("y", "x") }), LOOP);
  });

  it("is refused where a sandbox is given the project's, and closes a loop with its own", async () => {
    const [from, to] = [await domain.addProject(), await domain.addProject()];
    const sync = () => domain.transact((work) => syncSandbox(work, { from, to, actor: "test" }));
    await publish(domain, from, { key: "a", ...echo("x", "y") });
    await publish(domain, to, { key: "own", ...echo("y", "x") });
    await assert.rejects(sync(), LOOP);
    await domain.transact((work) => archiveRule(work, to, "own"));
    assert.equal((await sync()).rules, 1);
  });

  /** Two rules that set one another off, as they could be published before anything looked for it. */
  const withLoop = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "a", ...echo("x", "y") });
    await publish(domain, projectId, { key: "b", ...echo("z", "x") });
    await domain.sql`
      update rule_versions v set definition = jsonb_set(definition, '{triggers,0,eventTypes}', '["y"]')
      from rules r where r.id = v.rule_id and r.project_id = ${projectId} and r.key = 'b'`;
    return projectId;
  };

  it("is none that leaves a loop of before as it was, in a project or in a copy of it", async () => {
    const projectId = await withLoop();
    await define(domain, projectId, "reward", chest);
    await patch(projectId, ["reward", "chest", { bundle: { lives: 2 } }]);
    await importing(projectId, { rewards: [{ ...chest, name: "Box" }] });
    const to = await domain.addProject();
    const synced = await domain.transact((work) => syncSandbox(work, { from: projectId, to, actor: "test" }));
    assert.equal(synced.rules, 2);
    await publish(domain, projectId, { key: "c", ...echo("u", "v") });
    await assert.rejects(publish(domain, projectId, { key: "d", ...echo("v", "u") }), LOOP);
  });
});
