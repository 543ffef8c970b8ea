import assert from "node:assert/strict";
import { matchMaker } from "@colyseus/core";
import { aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";

describe("metrics of rooms", () => {
  it("count the rooms and clients of this process as they are when scraped", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const numbersOf = async (name: string): Promise<number[]> => {
      const page = await (await fetch(`${api.url}/metrics`)).text();
      return [...page.matchAll(new RegExp(`^${name} (\\d+)$`, "gm"))].map(([, number]) => Number(number));
    };
    const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
    // Rooms of the tests before may still be closing, so all are compared with what core counts.
    const areAsCounted = async (): Promise<boolean> => {
      const rooms = sum(await numbersOf('laurel_rooms{room="\\w+"}'));
      const clients = sum(await numbersOf("laurel_ws_clients"));
      const { roomCount, ccu } = matchMaker.stats.local;
      return rooms === roomCount && clients === ccu;
    };
    const { token } = await aPlayer(api, key);
    const { room } = await join(api, token, "player");
    assert(sum(await numbersOf('laurel_rooms{room="player"}')) > 0);
    assert(sum(await numbersOf("laurel_ws_clients")) > 0);
    await eventually(areAsCounted);
    await room.leave();
    await eventually(areAsCounted);
  });
});
