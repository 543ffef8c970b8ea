import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { storeEvents } from "../../src/domain/tracking/event-input.ts";
import { listen } from "../support/domain/listen.ts";
import { ALL_PARTS, preparePlans, usersIn } from "../support/domain/process-parts.ts";
import { define, publish, rowsOf } from "../support/domain/rule-projects.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const PART = 7;
const SIZES = [1, 10, 100, 500];
/** Tells PostgreSQL once a second that a transaction goes on: how often depends on the machine. */
const STILL_HERE = "/* unanswered */ select";

describe("a batch of events", () => {
  let statements: string[];
  const projects: string[] = [];
  const plans = createPlanCache();

  const { database, domain } = memoryDomain();
  before(async () => {
    for (let i = 0; i < 3; i++) projects.push(await aBusyProject());
    statements = await listen(database);
    for (const projectId of projects) await run(await track(projectId, usersIn(projectId, PART, 1, "warm-")));
  });

  /** With everything that a batch may load and write: rules, limits, attributes, boards of each source. */
  const aBusyProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    const rule = RuleDocument.parse({
      key: "goals",
      name: "Goals",
      triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
      limits: { perPlayer: [{ max: 1_000, window: "DAY" }] },
      actions: [
        { type: "grant_xp", amount: 60 },
        { type: "update_player", increment: { goals: 1 } },
        { type: "submit_score", leaderboardKey: "custom", score: 1 },
      ],
    });
    const event = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
    await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
    await domain.addBoard(projectId, { key: "count", name: "Count", metric: event });
    const daily = { kind: "DAILY", timezone: "Europe/Berlin" };
    await domain.addBoard(projectId, { key: "day", name: "Day", metric: event, period: daily });
    const gained = { metric: { source: "XP" }, period: daily, breakdownAttribute: "goals" };
    await domain.addBoard(projectId, { key: "gained", name: "Gained", ...gained });
    const custom = { metric: { source: "CUSTOM" }, operator: "SUM" };
    await domain.addBoard(projectId, { key: "custom", name: "Custom", ...custom });
    await domain.transact((work) => createRule(work, projectId, rule, "test"));
    await domain.transact((work) => publishRule(work, projectId, "goals", { publishedBy: "test" }));
    return projectId;
  };

  /** Rules that do everything there is, under limits of every kind. */
  const aProjectOfEverything = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
    await define(domain, projectId, "badge", {
      key: "rare",
      name: "Rare",
      maxAwards: 100_000,
      repeatable: true,
    });
    const mug = { key: "mug", name: "Mug", kind: "PRIZE", fulfilment: "EXTERNAL", stock: 100_000 };
    await define(domain, projectId, "reward", mug);
    await define(domain, projectId, "segment", { key: "vip", name: "VIP", kind: "STATIC" });
    const max = 1_000_000;
    await publish(domain, projectId, {
      key: "all",
      limits: {
        perPlayer: [{ max, window: "DAY" }],
        global: [
          { max, window: "DAY" },
          { max, window: "LIFETIME" },
        ],
        budgets: [{ asset: "currency:coins", max, window: "MONTH" }],
      },
      actions: [
        { type: "grant_xp", amount: 3 },
        { type: "adjust_currency", currencyKey: "coins", amount: 2 },
        { type: "update_badge", badgeKey: "rare", operation: "AWARD" },
        { type: "grant_reward", rewardKey: "mug" },
        { type: "update_player", addToSegments: ["vip"], increment: { n: 1 } },
        {
          type: "apply_boost",
          boostKey: "b",
          applies: "xp",
          factor: 2,
          durationSeconds: 60,
          stacking: "EXTEND",
        },
        { type: "emit_event", eventType: "mine", channels: ["rules", "webhook", "inbox"] },
        { type: "grant_xp", amount: 1, delaySeconds: 3_600 },
      ],
    });
    const onMine = { triggers: [{ kind: "EVENT", eventTypes: ["mine", "player.*"] }] };
    await publish(domain, projectId, {
      key: "heard",
      ...onMine,
      reentrant: true,
      limits: { cooldownSeconds: 1 },
    });
    const limits = { cooldownSeconds: 1 };
    await publish(domain, projectId, { key: "shadow", ...onMine, limits }, "SHADOW");
    return projectId;
  };

  const claim = async (parts: readonly number[] = [PART]): Promise<number> => {
    const onError = (error: unknown) => assert.fail(String(error));
    const onLeft = () => assert.fail("the claim has room for all");
    const options = { transact: domain.transact, plans, claimLimit: 1_000, onError, onLeft };
    const places = parts.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    return (await processPartitions(options, places)).events;
  };

  const track = async (projectId: string, users: readonly string[]): Promise<number> => {
    await domain.track(
      projectId,
      users.map((user) => ({ user })),
    );
    return users.length;
  };

  /** Processes one claim and answers how many statements it took. */
  const run = async (expected: number, parts?: readonly number[]): Promise<number> => {
    await preparePlans({ transact: domain.transact, plans });
    const start = statements.length;
    assert.equal(await claim(parts), expected);
    return statements.slice(start).filter((text) => text !== STILL_HERE).length;
  };

  const assertConstant = (counts: readonly number[], most: number): void => {
    assert.equal(new Set(counts).size, 1, `${counts.join(", ")} statements for ${SIZES.join(", ")} events`);
    assert.ok(
      counts[0]! > 1 && counts[0]! <= most,
      `${counts[0]} statements: ${statements.slice(-counts[0]!).join("\n")}`,
    );
  };

  it("takes the same statements for any number of events of known players", async () => {
    const [projectId] = projects as [string];
    const users = usersIn(projectId, PART, 500, "known-");
    await run(await track(projectId, users));
    const counts: number[] = [];
    for (const size of SIZES) counts.push(await run(await track(projectId, users.slice(0, size))));
    assertConstant(counts, 11);
  });

  it("takes the same statements for any number of events of one player", async () => {
    const [projectId] = projects as [string];
    const [user] = usersIn(projectId, PART, 1, "busy-") as [string];
    await run(await track(projectId, [user]));
    const counts: number[] = [];
    for (const size of SIZES) counts.push(await run(await track(projectId, Array<string>(size).fill(user))));
    assertConstant(counts, 11);
  });

  it("takes the same statements for any number of new players, three more than for known ones", async () => {
    const [projectId] = projects as [string];
    const counts: number[] = [];
    for (const size of SIZES) {
      counts.push(await run(await track(projectId, usersIn(projectId, PART, size, `new${size}-`))));
    }
    assertConstant(counts, 14);
  });

  it("takes the same statements for one project and for several", async () => {
    const counts: number[] = [];
    for (const share of [1, 2, 3]) {
      let events = 0;
      for (const projectId of projects.slice(0, share)) {
        events += await track(projectId, usersIn(projectId, PART, 1, "warm-"));
        events += await track(projectId, usersIn(projectId, PART, 5, `share${share}-`));
      }
      counts.push(await run(events));
    }
    assertConstant(counts, 14);
  });

  it("takes the same statements for one partition and for several", async () => {
    const [projectId] = projects as [string];
    const counts: number[] = [];
    for (const parts of [[1], [1, 2], ALL_PARTS]) {
      let events = 0;
      for (const part of parts)
        events += await track(projectId, usersIn(projectId, part, 3, `parts${parts.length}-`));
      counts.push(await run(events, parts));
    }
    assertConstant(counts, 14);
  });

  it("takes one statement more where players share something, whatever rules do", async () => {
    const projectId = await aProjectOfEverything();
    // More of events that write so much would be more than one claim.
    const sizes = SIZES.slice(0, 3);
    const users = usersIn(projectId, PART, 500, "all-");
    for (let i = 0; i < 500; i += 100) await run(await track(projectId, users.slice(i, i + 100)));
    // What was sent comes as events of its own.
    while ((await claim()) > 0);
    const counts: number[] = [];
    for (const size of sizes) {
      counts.push(await run(await track(projectId, users.slice(0, size))));
      while ((await claim()) > 0);
    }
    assertConstant(counts, 12);
    const written = await rowsOf(
      domain,
      sql<{ n: string }>`
      select least((select count(*) from rule_executions where project_id = ${projectId}),
        (select count(*) from badge_awards where project_id = ${projectId}),
        (select count(*) from reward_grants where project_id = ${projectId}),
        (select count(*) from inbox_messages where project_id = ${projectId}),
        (select count(*) from player_boosts where project_id = ${projectId}),
        (select count(*) from player_segments where project_id = ${projectId}),
        (select count(*) from player_balances where project_id = ${projectId}),
        (select count(*) from event_due where project_id = ${projectId})) as n`,
    );
    assert.ok(Number(written[0]!.n) >= 500, "every kind of effect was written for every player");
  });

  it("is stored with the same statements, whatever its number of events, keys and duplicates", async () => {
    const [projectId] = projects as [string];
    const event = (n: number) => ({
      id: newId(),
      p: projectId,
      u: `u${n}`,
      t: "stored",
      d: "{}",
      ts: Date.now(),
      at: Date.now(),
      k: `key-${n}-${newId()}`,
      x: newId(),
      h: PART,
    });
    const store = async (size: number): Promise<number> => {
      const rows = Array.from({ length: size }, (_, n) => event(n));
      const start = statements.length;
      await domain.transact((work) =>
        storeEvents(work, [...rows, ...rows.map((row) => ({ ...row, id: newId() }))]),
      );
      return statements.length - start;
    };
    const counts: number[] = [];
    for (const size of SIZES) counts.push(await store(size));
    assertConstant(counts, 2);
    await domain.process();
  });
});
