import assert from "node:assert/strict";
import { must } from "../http/client.ts";
import { oneWins, type Race, sideIn, tally, together } from "./arena.ts";
import type { Side } from "../app/sides.ts";

const COINS = { key: "coins", name: "Coins" };

/** A player with `amount` coins, and the path of the balance. */
const aBalance = async (side: Side, amount: number): Promise<{ player: string; coins: string }> => {
  await side.make("/currencies", COINS);
  const player = `/api/v1/players/${await side.player()}`;
  return { player, coins: await granted(side, `${player}/balances/coins`, amount) };
};

const granted = async (side: Side, coins: string, amount: number): Promise<string> => {
  must(await side.send("post", `${coins}/grant`, { amount }), 201);
  return coins;
};

export const economyRaces: readonly Race[] = [
  {
    name: "spends a balance for 10 exactly 10 times, however many want to",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 105);
      const answers = await together(arena, 50, (client) =>
        client.post(`${coins}/spend`, { amount: 10 }, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 10, "409 INSUFFICIENT_FUNDS": 40 });
      const [balance] = must(await side.send("get", `${player}/balances`), 200).data;
      assert.deepEqual([balance.balance, balance.available, balance.lifetimeSpent], [5, 5, 100]);
      const verdict = must(await side.send("get", `${player}/ledger/verify`), 200);
      assert.deepEqual([verdict.valid, verdict.entries], [true, 11]);
    },
  },
  {
    name: "holds and spends no more than there is",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 50);
      const answers = await together(arena, 24, (client, i) =>
        i % 2 === 0
          ? client.post(`${coins}/spend`, { amount: 7 }, { key })
          : client.post(`${coins}/holds`, { amount: 7, expiresInSeconds: 600 }, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 7, "409 INSUFFICIENT_FUNDS": 17 });
      const [balance] = must(await side.send("get", `${player}/balances`), 200).data;
      assert.equal(balance.available, 1);
    },
  },
  {
    name: "settles a hold once",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 10);
      const hold = { amount: 6, expiresInSeconds: 600 };
      const { id } = must(await side.send("post", `${coins}/holds`, hold), 201);
      const answers = await together(arena, 10, (client, i) =>
        client.post(`${player}/holds/${id}/${i % 2 === 0 ? "capture" : "release"}`, {}, { key }),
      );
      const won = answers.filter(({ status }) => status === 200);
      assert.deepEqual(tally(answers), { 200: 1, "409 INVALID_STATE": 9 });
      const [balance] = must(await side.send("get", `${player}/balances`), 200).data;
      const left = won[0]!.body.status === "CAPTURED" ? 4 : 10;
      assert.deepEqual([balance.balance, balance.held], [left, 0]);
    },
  },
  {
    name: "takes a reference for one of the grants, spendings and holds that use it",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 100);
      const amount = { amount: 1, reference: "order-7" };
      const answers = await together(arena, 12, (client, i) => {
        if (i % 4 === 0) return client.post(`${coins}/grant`, amount, { key });
        if (i % 4 === 1) return client.post(`${coins}/spend`, amount, { key });
        if (i % 4 === 2) return client.post(`${player}/xp`, amount, { key });
        return client.post(`${coins}/holds`, { ...amount, expiresInSeconds: 60 }, { key });
      });
      oneWins(answers, 201, "409 REFERENCE_USED");
    },
  },
  {
    name: "takes five lives of five",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.set({ lives: { enabled: true } });
      const path = `/api/v1/players/${await side.player()}/lives`;
      const answers = await together(arena, 12, (client) => client.post(`${path}/consume`, {}, { key }));
      assert.deepEqual(tally(answers), { 200: 5, "409 INSUFFICIENT_LIVES": 7 });
      assert.equal(must(await side.send("get", path), 200).current, 0);
    },
  },
];
