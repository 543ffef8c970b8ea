import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

describe("metrics of what requests share", () => {
  const api = madeOnce(startApp);

  const shown = async (): Promise<string> => (await fetch(`${api.url}/metrics`)).text();
  const read = async (name: string): Promise<number> => {
    const line = (await shown()).split("\n").find((one) => one.startsWith(`${name} `));
    assert.ok(line !== undefined, `${name} is shown`);
    return Number(line.slice(name.length + 1));
  };

  it("count shared transactions, their requests, and those that wait", async () => {
    const { key } = await aTenant(api);
    const [requests, groups] = ["laurel_shared_commit_requests_sum", "laurel_shared_commit_requests_count"];
    const before = [await read(requests), await read(groups)] as const;
    const players = Array.from({ length: 12 }, (_, n) => `player-${n}`);
    await Promise.all(
      players.map(async (externalUserId) =>
        must(await api.post("/api/v1/players", { externalUserId }, { key }), 201),
      ),
    );
    const taken = async () => (await read(requests)) - before[0];
    // The numbers are collected once a second, for whoever asks.
    await eventually(async () => (await taken()) >= players.length, { label: "requests were in groups" });
    const begun = (await read(groups)) - before[1];
    assert.ok(begun < (await taken()), `${begun} groups are fewer`);
    assert.equal(await read("laurel_shared_commit_waiting"), 0);
  });

  it("show hits, misses and bytes of kept answers, and which entries wait for the index", async () => {
    const { key } = await aTenant(api);
    const board = { key: "xp", name: "XP", metric: { source: "XP" } };
    must(await api.post("/api/v1/leaderboards", board, { key }), 201);
    must(await api.post("/api/v1/players", { externalUserId: "ada" }, { key }), 201);
    const lookUps = (result: string) => `laurel_cache_lookups_total{cache="answers",result="${result}"}`;
    const isHit = async (): Promise<boolean> => {
      must(await api.get("/api/v1/leaderboards/xp/entries", { key }), 200);
      return (await shown()).includes(lookUps("hit"));
    };
    // What the relay commits makes answers of the same process old.
    await eventually(isHit);
    assert.ok((await read(lookUps("miss"))) > 0);
    assert.ok((await read('laurel_cache_bytes{cache="answers"}')) > 0);
    assert.ok((await read('laurel_cache_items{cache="boards"}')) > 0);
    for (const cache of ["players", "lists", "chats"])
      assert.ok((await read(`laurel_cache_items{cache="${cache}"}`)) >= 0);
    assert.ok((await read("laurel_own_entries")) >= 0);
  });
});
