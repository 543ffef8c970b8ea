import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";

describe("metrics of rooms", () => {
  it("count the rooms and clients of this process as they are when scraped", async () => {
    const api = await startApp();
    const { key } = await aTenant(api);
    const read = async (name: string): Promise<number> => {
      const page = await (await fetch(`${api.url}/metrics`)).text();
      return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(page)?.[1] ?? 0);
    };
    const [rooms, clients] = [await read('laurel_rooms{room="player"}'), await read("laurel_ws_clients")];
    const { token } = await aPlayer(api, key);
    const { room } = await join(api, token, "player");
    await eventually(async () => (await read('laurel_rooms{room="player"}')) === rooms + 1);
    assert.equal(await read("laurel_ws_clients"), clients + 1);
    await room.leave();
    await eventually(async () => (await read("laurel_ws_clients")) === clients);
  });
});
