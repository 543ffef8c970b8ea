import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Work } from "../../src/domain/kernel/work.ts";
import { BATCH, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { changePlayer } from "../../src/domain/progression/change.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { lockPlayers } from "../../src/domain/progression/load.ts";
import { createPlanCache, loadPlans } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { lockSharedCounters } from "../../src/domain/progression/lock-shared-counters.ts";
import { ALL_PARTS, processParts, publish, usersIn, xpOf } from "../support/domain/domain.ts";
import { postgresDomain } from "../support/processes/services.ts";
import { whileTaken } from "../support/domain/sharing.ts";

const xpOfEach = (users: readonly string[], xp = 10) =>
  Object.fromEntries(users.toSorted().map((user) => [user, xp]));

describe("a transaction that holds what events of one project need", () => {
  const { domain } = postgresDomain(6);

  beforeEach(() => void (blamed = []));

  const plans = createPlanCache();
  const aProject = async (document: object = {}): Promise<string> => {
    const projectId = await domain.addProject();
    const actions = [{ type: "grant_xp", amount: 10 }];
    await publish(domain, projectId, { key: "give", actions, ...document });
    await domain.transact((work) => loadPlans(work, [projectId], plans));
    return projectId;
  };
  const trackEach = async (projectId: string, users: readonly string[]): Promise<void> => {
    for (const user of users) await domain.track(projectId, [{ user }]);
  };
  let blamed: string[] = [];
  const onError = (error: unknown): void => void blamed.push(String(error));
  const options = () => ({ transact: domain.transact, plans, claimLimit: 100, onError });
  const process = (): Promise<number> => withTimeouts(BATCH, () => processParts(options(), ALL_PARTS));
  /** One claim, which does not come again for what it had to leave. */
  const claim = (): Promise<Processed> => {
    const places = ALL_PARTS.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    const onLeft = (): void => undefined;
    return withTimeouts(BATCH, () => processPartitions({ ...options(), onLeft }, places));
  };

  const during = (take: (work: Work) => Promise<unknown>, run: () => Promise<void>) =>
    whileTaken(domain.transact, take, run);

  it("keeps the events of its players waiting, and those of no other player or project", async () => {
    const [mine, other] = [await aProject(), await aProject()];
    const [held, free] = usersIn(mine, 0, 2) as [string, string];
    const theirs = usersIn(other, 0, 3);
    await domain.addPlayer(mine, held);
    const take = (work: Work) => lockPlayers(work, [{ projectId: mine, externalUserId: held }]);
    await during(take, async () => {
      await trackEach(mine, [held, free, held]);
      await trackEach(other, theirs);
      const { events, preparing } = await claim();
      assert.equal(events, 1 + theirs.length);
      assert.deepEqual(await preparing, [0], "it comes again for what it has left");
      assert.deepEqual(await xpOf(domain, other), xpOfEach(theirs));
      assert.deepEqual(await xpOf(domain, mine), { [held]: 0, [free]: 10 });
    });
    assert.equal(await process(), 2);
    assert.deepEqual(await xpOf(domain, mine), { [held]: 20, [free]: 10 });
  });

  it("counts no try of the events that wait, also where an event of the claim fails", async () => {
    const [mine, other] = [await aProject(), await aProject()];
    const [held] = usersIn(mine, 0, 1) as [string];
    const [bad, good] = usersIn(other, 0, 2) as [string, string];
    await domain.addPlayer(mine, held);
    const badId = await domain.addPlayer(other, bad);
    await domain.sql`alter table ledger_entries add constraint not_bad check (player_id <> ${sql.lit(badId)})`;
    const take = (work: Work) => lockPlayers(work, [{ projectId: mine, externalUserId: held }]);
    await during(take, async () => {
      await trackEach(mine, [held]);
      await trackEach(other, [bad, good]);
      await claim();
    });
    assert.equal(blamed.length, 1);
    assert.equal((await xpOf(domain, other))[good], 10);
    const tries = await domain.sql<{ attempts: number }>`
      select attempts from event_q where project_id = ${mine}`;
    assert.deepEqual(tries, [{ attempts: 0 }]);
    await process();
    assert.deepEqual(await xpOf(domain, mine), { [held]: 10 });
  });

  it("keeps its own events waiting where they share counters, and those of no other project", async () => {
    const limits = { limits: { global: [{ max: 1_000, window: "LIFETIME" }] } };
    const [mine, other] = [await aProject(limits), await aProject(limits)];
    const [user, late] = usersIn(mine, 0, 2) as [string, string];
    const [fresh, ...theirs] = usersIn(other, 0, 4) as [string, ...string[]];
    await trackEach(mine, [user]);
    await trackEach(other, theirs);
    assert.equal(await process(), 4);
    const shared = await domain.sql<{ scope: string; n: string }>`
      select scope, window_no as n from shared_counters where project_id = ${mine}`;
    const keys = shared.map(({ scope, n }) => ({ projectId: mine, scope, windowNo: Number(n) }));
    assert.equal(keys.length, 1);
    await during(
      (work) => lockSharedCounters(work, keys),
      async () => {
        await trackEach(mine, [user, late]);
        await trackEach(other, [...theirs, fresh]);
        assert.equal((await claim()).events, theirs.length + 1);
        assert.deepEqual(await xpOf(domain, other), { ...xpOfEach(theirs, 20), [fresh]: 10 });
        assert.deepEqual(await xpOf(domain, mine), { [user]: 10 });
      },
    );
    assert.equal(await process(), 2);
    assert.deepEqual(await xpOf(domain, mine), { [user]: 20, [late]: 10 });
    const told = await domain.sql<{ u: string; n: number }>`
      select p.external_user_id as u, count(*)::int as n from outbox o join players p on p.id = o.player_id
      where o.type = 'player.created' and p.project_id in (${mine}, ${other}) group by p.project_id, 1`;
    const expected = [user, late, ...theirs, fresh].map((name) => ({ u: name, n: 1 }));
    const byName = (a: { u: string }, b: { u: string }): number => (a.u < b.u ? -1 : 1);
    assert.deepEqual(told.toSorted(byName), expected.toSorted(byName), "each new player is told of once");
  });

  it("lets events of a player go on whom requests change without a pause", async () => {
    const projectId = await aProject();
    const [user] = usersIn(projectId, 0, 1) as [string];
    const playerId = await domain.addPlayer(projectId, user);
    let isOver = false;
    const change = async (): Promise<void> => {
      while (!isOver)
        await domain.transact((work) =>
          changePlayer(work, { projectId, id: playerId }, () => () => undefined),
        );
    };
    const changes = [change(), change(), change()];
    try {
      await domain.track(projectId, [{ user }]);
      await process();
      assert.deepEqual(await xpOf(domain, projectId), { [user]: 10 });
    } finally {
      isOver = true;
      await Promise.all(changes);
    }
  });
});
