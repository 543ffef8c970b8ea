import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { listEntries, verifyLedger } from "../../src/domain/economy/ledger/entries.ts";
import { noEffects, type LedgerRow } from "../../src/domain/evaluation/effects.ts";
import { type Cause, CAUSE_KINDS } from "../../src/domain/kernel/events/events.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { eraseLedger } from "../../src/domain/player-lifecycle/erase-rows.ts";
import { effectArms, storedLine } from "../../src/domain/progression/save.ts";
import { memoryDomain, processAll, publish } from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";

type Line = Pick<LedgerRow, "reason" | "cause" | "eventId" | "key">;

const IDS = Array.from({ length: 3 }, newId);
const anId = fc.constantFrom(...IDS);
const text = fc.oneof(fc.stringMatching(/^[a-z:-]{1,12}$/), fc.constantFrom("rule:r", "rule:", "erased"));
const actionId = fc.constantFrom("a1", "a2", "a:3", "");
const ruleCause: fc.Arbitrary<Cause> = fc.record(
  {
    kind: fc.constant("RULE"),
    eventId: anId,
    rootEventId: anId,
    ruleId: anId,
    ruleKey: fc.oneof(fc.constant("r"), text),
    ruleVersion: fc.nat(9),
    actionId,
  },
  { noNullPrototype: true },
);
const otherCause: fc.Arbitrary<Cause> = fc.record(
  {
    kind: fc.constantFrom(...CAUSE_KINDS.filter((kind) => kind !== "RULE")),
    eventId: anId,
    rootEventId: anId,
    refKey: text,
    actor: text,
    actionId,
  },
  { requiredKeys: ["kind"], noNullPrototype: true },
);
const keyOf = (id: string, action: string, n: number): string[] => [
  `evt:digest:r:${action}`,
  `evt:digest:r:${action}:${n}`,
  `tgt:${id}:${id}:${action}`,
  `rev:${id}`,
  "k",
];
const aLine: fc.Arbitrary<Line> = fc
  .record({
    reason: text,
    cause: fc.oneof(ruleCause, ruleCause, otherCause),
    eventId: fc.option(anId),
    keys: fc.tuple(anId, actionId, fc.nat(9)).map((given) => keyOf(...given)),
    isOwn: fc.boolean(),
    n: fc.nat(4),
  })
  .map(({ isOwn, keys, n, ...line }) => {
    const reason = isOwn && line.cause.ruleKey !== undefined ? `rule:${line.cause.ruleKey}` : line.reason;
    return { ...line, reason, key: keys[n]! };
  });

describe("lines of the ledger", () => {
  const { domain } = memoryDomain();

  const read = async (projectId: string, id: string) =>
    (await domain.transact((work) => listEntries(work, { projectId, id }, { limit: 100 }))).entries;

  /** Writes a line for a new player, as saving does or as all lines were once written. @returns the player */
  const write = async (projectId: string, line: Line, isWhole: boolean): Promise<string> => {
    const playerId = newId();
    const amounts = { seq: 1, asset: "XP" as const, currencyKey: null, amount: 1, balanceAfter: 1 };
    const row = {
      ...line,
      ...amounts,
      id: newId(),
      projectId,
      playerId,
      txId: null,
      reverses: null,
      hash: "",
    };
    const arm = effectArms({ ...noEffects(), ledger: [row] }, []).find(({ name }) => name === "lg")!;
    const rows = JSON.stringify(isWhole ? [row] : arm.rows);
    await domain.transact(({ db }) => arm.write(sql`${rows}`, sql`now()`).execute(db));
    return playerId;
  };

  it("are read as they were given, however they are stored", async () => {
    const projectId = await domain.addProject();
    await fc.assert(
      fc.asyncProperty(aLine, fc.boolean(), async (line, isWhole) => {
        const [entry] = await read(projectId, await write(projectId, line, isWhole));
        assert.deepEqual([entry!.reason, entry!.cause], [line.reason, line.cause]);
      }),
      { numRuns: cases(300) },
    );
  });

  /** A rule gives Ada XP for an event of long ago. */
  const play = async () => {
    const projectId = await domain.addProject();
    const ruleId = await publish(domain, projectId, {
      key: "goals",
      actions: [{ type: "grant_xp", amount: 10 }],
    });
    const at = new Date("2024-02-03T04:05:06Z");
    const [eventId] = await domain.track(projectId, [{ user: "ada", at }]);
    await processAll(domain);
    const [player] = await domain.sql<{ id: string }>`select id from players where project_id = ${projectId}`;
    const ids = { eventId: eventId!, rootEventId: eventId!, ruleId };
    const cause = { kind: "RULE", ...ids, ruleKey: "goals", ruleVersion: 1, actionId: "a1" };
    return { projectId, playerId: player!.id, cause, at };
  };

  it("of an erased player name the rule still, and the chain stands", async () => {
    const { projectId, playerId, cause } = await play();
    const person = { projectId, playerId, ids: [playerId], names: ["ada"] };
    await domain.transact((work) => eraseLedger(work, person, { after: [], rows: {} }));
    const [entry] = await read(projectId, playerId);
    assert.deepEqual([entry!.reason, entry!.cause], ["erased", cause]);
    assert.equal((await verifyLedger(domain.transact, { projectId, id: playerId })).valid, true);
  });

  it("tell a board of total XP that comes later when a score was reached", async () => {
    const { projectId, at } = await play();
    const board = { key: "total", name: "Total", metric: { source: "XP" } };
    const entries = await domain.entries(await domain.addBoard(projectId, board));
    assert.deepEqual(entries, [["ada", -10, at.getTime() * 1_000]]);
  });

  it("that no event has caused are stored as they are", () => {
    const cause = { kind: "API" as const, actor: "key:x" };
    const row = { reason: "gift", cause, eventId: null, key: "api:1" } as LedgerRow;
    assert.deepEqual(storedLine(row), { reason: "gift", cause });
  });
});
