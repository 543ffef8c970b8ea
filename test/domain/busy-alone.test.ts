import assert from "node:assert/strict";
import { sql } from "kysely";
import { BUSY_MAX } from "../../src/domain/progression/claim.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { getEvent } from "../../src/domain/tracking/events.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { ALL_PARTS, claimParts, memoryDomain } from "../support/domain/domain.ts";

/** The amount of XP that PostgreSQL refuses to write as it would cancel a statement that takes too long. */
const STUCK_XP = 13;

describe("an event that cannot be saved because the database is busy", () => {
  let transact: Transact;
  let projectId: string;
  let blamed: string[];

  const { database, domain } = memoryDomain();
  before(async () => {
    transact = createTransact({
      em: database.em,
      clock: () => new Date(Date.now() + 60_000),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });
    await transact(async ({ db }) => {
      await sql`create function cancel() returns trigger language plpgsql as $$
        begin raise exception 'canceling statement due to statement timeout' using errcode = '57014'; end $$
      `.execute(db);
      await sql`create trigger cancelled before insert on ledger_entries for each row
        when (new.amount = ${sql.lit(STUCK_XP)}) execute function cancel()`.execute(db);
    });
  });
  beforeEach(async () => {
    blamed = [];
    projectId = await domain.addProject();
    await addRule("good", 10);
    await addRule("stuck", STUCK_XP);
  });

  const addRule = async (type: string, amount: number): Promise<void> => {
    const rule = RuleDocument.parse({
      key: type,
      name: type,
      triggers: [{ kind: "EVENT", eventTypes: [type] }],
      actions: [{ type: "grant_xp", amount }],
    });
    await transact((work) => createRule(work, projectId, rule, "test"));
    await transact((work) => publishRule(work, projectId, type, { publishedBy: "test" }));
  };
  const process = async (busyInRow: number): Promise<number> => {
    const onError = (_error: unknown, { eventId }: { eventId: string }) => void blamed.push(eventId);
    const places = ALL_PARTS.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    const onLeft = (): void => undefined;
    const options = { transact, plans: createPlanCache(), claimLimit: 100, busyInRow, onError, onLeft };
    return (await claimParts(options, places)).events;
  };
  const statusOf = async (eventId: string): Promise<string> =>
    (await transact((work) => getEvent(work, projectId, eventId))).status;
  const track = async (types: readonly string[]): Promise<string[]> =>
    domain.track(
      projectId,
      types.map((type) => ({ user: "u", type })),
    );

  it("undoes its claim, and no try is counted", async () => {
    const ids = await track(["good", "stuck"]);
    await assert.rejects(process(BUSY_MAX - 1), /statement timeout/);
    assert.deepEqual(await Promise.all(ids.map(statusOf)), ["PENDING", "PENDING"]);
    assert.deepEqual(blamed, []);
    assert.equal(await process(BUSY_MAX), 2, "it has not gone from the queue");
  });

  it("is to blame when others of its claim can be saved, and holds up nobody for ever", async () => {
    const [first, stuck, last] = (await track(["good", "stuck", "good"])) as [string, string, string];
    await process(BUSY_MAX);
    await process(0);
    const statuses = await Promise.all([first, stuck, last].map(statusOf));
    assert.deepEqual(statuses, ["PROCESSED", "PENDING", "PROCESSED"]);
    assert.deepEqual(blamed, [stuck]);
  });

  it("is not to blame when no event of the claim can be saved", async () => {
    const ids = await track(["stuck", "stuck"]);
    await assert.rejects(process(BUSY_MAX), /statement timeout/);
    assert.deepEqual(await Promise.all(ids.map(statusOf)), ["PENDING", "PENDING"]);
    assert.deepEqual(blamed, []);
  });
});
