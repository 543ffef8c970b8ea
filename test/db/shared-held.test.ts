import assert from "node:assert/strict";
import { sql } from "kysely";
import { addCodes, claimReward, grantByHand } from "../../src/domain/economy/rewards/catalogue.ts";
import { limitedKey } from "../../src/domain/evaluation/rewards/shared-keys.ts";
import type { DomainError } from "../../src/domain/kernel/errors.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { lockSharedCounters } from "../../src/domain/progression/lock-shared-counters.ts";
import { define } from "../support/domain/domain.ts";
import { changeBalance } from "../../src/domain/economy/currencies/holds.ts";
import { lockPlayersById } from "../../src/domain/progression/load.ts";
import { WEB, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { aProjectOfChanges, openSharing, type Share, whileTaken } from "../support/domain/sharing.ts";
import { postgresDomain } from "../support/processes/services.ts";
import { pluck } from "../support/pluck.ts";

describe("a player whose row is held", () => {
  const { database, domain } = postgresDomain(6);
  let projectId: string;
  let share: Share;
  const ids: string[] = [];

  before(async () => {
    projectId = await aProjectOfChanges(domain);
    for (const name of ["held", "free", "other"]) ids.push(await domain.addPlayer(projectId, name));
    ({ share } = await openSharing(database, domain, projectId));
  });

  const grant = (name: string, amount = 1): Promise<number> =>
    withTimeouts(WEB, () =>
      share(name, async (work) => {
        const key = { projectId, id: `ext:${name}` };
        const change = { currencyKey: "coins", amount, reason: "test", cause: { kind: "API" } as const };
        return (await changeBalance(work, key, change)).balance.balance;
      }),
    );

  /** Runs `run` while another transaction holds the player, or what `take` takes. */
  const whileHeld = (
    run: () => Promise<void>,
    take: (work: Work) => Promise<unknown> = (work) => lockPlayersById(work, projectId, [ids[0]!]),
  ) => whileTaken(domain.transact, take, run);

  it("does not keep the others waiting who share its transaction, nor those who come after", async () => {
    let first: Promise<number> | undefined;
    let isServed = false;
    await whileHeld(async () => {
      first = grant("held").finally(() => (isServed = true));
      // None of these is answered before it would be without the one that waits.
      assert.deepEqual(await Promise.all([grant("free"), grant("other")]), [101, 101]);
      assert.equal(await grant("free"), 102);
      assert.equal(isServed, false);
    });
    assert.equal(await first, 101);
  });

  it("is changed in the order of the requests once it is free", async () => {
    const order: number[] = [];
    let all: Promise<unknown> = Promise.resolve();
    await whileHeld(async () => {
      const requests = [1, 2, 3].map((n) => grant("held", n).then(() => void order.push(n)));
      all = Promise.all(requests);
      assert.equal(await grant("other"), 102);
      assert.deepEqual(order, []);
    });
    await all;
    assert.deepEqual(order, [1, 2, 3]);
  });

  it("that stays held is refused as busy after the limit of a wait, and nothing is changed", async () => {
    await whileHeld(async () => {
      await assert.rejects(grant("held", 50), { code: "55P03" });
    });
    assert.equal(await grant("held"), 108);
  });

  const give = (name: string, reward: string, delivery: "AUTO" | "CLAIM" = "AUTO") =>
    withTimeouts(WEB, () =>
      share(name, (work) =>
        grantByHand(
          work,
          { projectId, id: `ext:${name}` },
          { reward, quantity: 1, delivery, cause: { kind: "API" } },
        ),
      ),
    );

  it("is not all that others may hold: a counter and a grant keep waiting who needs them", async () => {
    const bundle = { kind: "BUNDLE", bundle: { xp: 1 } } as const;
    await define(domain, projectId, "reward", { key: "rare", name: "Rare", stock: 5, ...bundle });
    await define(domain, projectId, "reward", { key: "later", name: "Later", ...bundle });
    const { id: grantId } = await give("other", "later", "CLAIM");
    const claim = () =>
      withTimeouts(WEB, () =>
        share("other", (work) => claimReward(work, { projectId, id: "ext:other" }, grantId)),
      );
    const holds: [(work: Work) => Promise<unknown>, () => Promise<{ status: string }>][] = [
      [
        (work) => lockSharedCounters(work, [limitedKey(projectId, "reward", "rare")]),
        () => give("other", "rare"),
      ],
      [({ db }) => sql`select 1 from reward_grants where id = ${grantId} for update`.execute(db), claim],
    ];
    for (const [take, run] of holds) {
      let waiting: Promise<{ status: string }> | undefined;
      let isServed = false;
      await whileHeld(async () => {
        waiting = run().finally(() => (isServed = true));
        await Promise.all([grant("free"), grant("held")]);
        assert.equal(isServed, false);
      }, take);
      assert.ok(["GRANTED", "CLAIMED"].includes((await waiting!).status));
    }
  });

  it("is refused a prize without undoing what others do: codes are taken apart", async () => {
    const prize = { kind: "PRIZE", fulfilment: "CODE", perPlayerLimit: 1 } as const;
    await define(domain, projectId, "reward", { key: "code", name: "Code", ...prize });
    await domain.transact((work) => addCodes(work, projectId, { reward: "code", codes: ["a", "b", "c"] }));
    const commits = async (): Promise<number> => {
      const rows = await domain.sql<{ n: number }>`
        select count(distinct xmin::text) as n from ledger_entries
        where project_id = ${projectId}`;
      return rows[0]!.n;
    };
    const before = await commits();
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 20 }, () => grant("free")),
      give("other", "code"),
      give("other", "code"),
      ...Array.from({ length: 20 }, () => grant("held")),
    ]);
    const refused = outcomes.flatMap((one) => (one.status === "rejected" ? [one.reason as DomainError] : []));
    assert.deepEqual(pluck(refused, "reason"), ["LIMIT_REACHED"]);
    // 40 grants: of the group, and of those who came when it was full or on its way.
    assert.ok((await commits()) - before <= 3);
  });
});
