import assert from "node:assert/strict";
import fc from "fast-check";
import { listMembers, SPELLS_KEPT_MS } from "../../src/domain/economy/segments/members.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { define, memoryDomain, processAll } from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";

const HOUR_MS = 3_600_000;
const RICH = 10;

/** Events of players, each an hour after the one before. */
const histories = fc.array(
  fc.record({ user: fc.constantFrom("ada", "bob"), amount: fc.integer({ min: -12, max: 12 }) }),
  { minLength: 1, maxLength: 14 },
);

/** The first is processed alone: within one batch the player leaves and enters again. */
const LEFT_AND_BACK = [RICH, -1, 1].map((amount) => ({ user: "ada", amount }));

describe("members of a segment as of a moment", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  beforeEach(async () => {
    projectId = await aProject();
  });

  const aProject = async (): Promise<string> => {
    const id = await domain.addProject();
    await define(domain, id, "segment", {
      key: "rich",
      name: "Rich",
      kind: "DYNAMIC",
      definition: {
        all: [
          {
            type: "event_aggregate",
            metric: { eventTypes: ["paid"], aggregate: "sum", property: "amount" },
            op: "gte",
            value: RICH,
          },
        ],
      },
    });
    return id;
  };
  const pay = async (user: string, amount: number, at: Date) => {
    await domain.track(projectId, [{ user, type: "paid", at, properties: { amount } }]);
  };
  const membersAt = async (at?: Date): Promise<string[]> => {
    const query = { page: 1, limit: 100, ...(at ? { at } : {}) };
    const { members, total } = await domain.transact((work) => listMembers(work, projectId, "rich", query));
    assert.equal(total, members.length);
    return members.map(({ externalUserId }) => externalUserId).toSorted();
  };

  it("are those whom the events up to then had made members, however they were batched", () =>
    fc.assert(
      fc.asyncProperty(histories, fc.nat({ max: 3 }), async (history, pieces) => {
        projectId = await aProject();
        const startMs = Date.now() - 20 * HOUR_MS;
        const timeOf = (i: number) => new Date(startMs + i * HOUR_MS);
        for (const [i, { user, amount }] of history.entries()) {
          await pay(user, amount, timeOf(i));
          if (pieces > 0 && i % pieces === 0) await processAll(domain);
        }
        await processAll(domain);
        const balances = new Map<string, number>();
        for (const [i, { user, amount }] of history.entries()) {
          balances.set(user, (balances.get(user) ?? 0) + amount);
          const rich = [...balances].flatMap(([name, balance]) => (balance >= RICH ? [name] : [])).toSorted();
          const later = new Date(timeOf(i).getTime() + HOUR_MS / 2);
          assert.deepEqual(await membersAt(timeOf(i)), rich, `at event ${i}`);
          assert.deepEqual(await membersAt(later), rich, `after event ${i}`);
        }
        assert.deepEqual(await membersAt(new Date(startMs - 1)), []);
        assert.deepEqual(await membersAt(new Date()), await membersAt());
      }),
      { numRuns: cases(30), examples: [[LEFT_AND_BACK, 2]] },
    ));

  it("name the player that is left of two who were merged, once", async () => {
    const at = (hoursAgo: number) => new Date(Date.now() - hoursAgo * HOUR_MS);
    for (const user of ["ada", "bob"]) await pay(user, RICH, at(5));
    await pay("ada", -1, at(3));
    await processAll(domain);
    const [targetId, sourceId] = [
      await domain.addPlayer(projectId, "ada"),
      await domain.addPlayer(projectId, "bob"),
    ];
    assert.deepEqual(await membersAt(at(2)), ["bob"]);
    const merge = { projectId, targetId, sourceId, strategy: DEFAULT_STRATEGY, cause: {} };
    await domain.transact((work) => mergePlayers(work, merge));
    assert.deepEqual([await membersAt(at(4)), await membersAt(at(2))], [["ada"], ["ada"]]);
  });

  it("are refused for a moment to come, one too long ago, and one before they were kept", async () => {
    const refused = (at: Date, why: RegExp) => assert.rejects(membersAt(at), why);
    await refused(new Date(Date.now() + HOUR_MS), /in the future/);
    await refused(new Date(Date.now() - SPELLS_KEPT_MS - HOUR_MS), /known since/);
    const since = new Date(Date.now() - 2 * HOUR_MS);
    await domain.sql`update projects set spells_since = ${since.toISOString()} where id = ${projectId}`;
    await refused(new Date(since.getTime() - HOUR_MS), new RegExp(since.toISOString()));
    assert.deepEqual(await membersAt(since), []);
  });
});
