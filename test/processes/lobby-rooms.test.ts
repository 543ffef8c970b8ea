import assert from "node:assert/strict";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";
import { aGuest, aLobby, enter, type InLobby, memberIn, sharedState } from "../support/lobbies/room.ts";
import { range } from "../support/rooms/sdk.ts";

const LOBBIES = 6;

describe("lobbies of three web processes behind one port", () => {
  let cluster: WebCluster;

  before(async () => {
    cluster = await startWebCluster(3);
  });
  after(() => cluster?.stop());

  it("have one room each, whichever process is asked, and show what any of them commits", async () => {
    const { api, tenant } = cluster;
    const { key } = tenant;
    await Promise.all(
      range(1, LOBBIES).map(async () => {
        const host = await aLobby(api, tenant, { settings: { readyPolicy: "HOST", countdownSeconds: 0 } });
        const guests = [await aGuest(api, tenant, host), await aGuest(api, tenant, host)];
        for (const { room } of guests) assert.equal(room.roomId, host.room.roomId);
        await Promise.all(guests.map(({ room }) => room.request("lobby.ready", { ready: true })));
        await guests[0]!.room.request("lobby.signal", { payload: "hello" });
        const data = { playerId: guests[1]!.playerId };
        must(await api.post(`/api/v1/lobbies/${host.lobbyId}/leave`, data, { key }), 200);
        await host.room.request("lobby.start", {});
        await eventuallyHolds(() => {
          assert.equal(memberIn(host, guests[1]!), undefined);
          assert.equal(guests[0]!.room.state.status, "IN_GAME");
          assert.deepEqual(sharedState(guests[0]!), sharedState(host));
        });
        await eventually(() => guests[1]!.left);
        // What is told of a change may come after the state that shows it.
        for (const name of ["lobby.signal", "lobby.started", "lobby.member_left"])
          await eventuallyHolds(() => assert.equal(host.named(name).length, 1, name));
        for (const { room } of [guests[0]!, host]) await room.leave();
      }),
    );
  });

  it("keep every seat when a process is killed, and its members come back to one room", async () => {
    const { api, tenant, webs } = cluster;
    const lobbies = await Promise.all(
      range(1, LOBBIES).map(async () => {
        const host = await aLobby(api, tenant, { settings: { graceSeconds: 60 } });
        const guest = await aGuest(api, tenant, host);
        await guest.room.request("lobby.ready", { ready: true });
        return [host, guest] as const;
      }),
    );
    await cluster.kill(webs[0]!);
    await Promise.all(
      lobbies.map(async ([host, guest]) => {
        const comeBack = (who: InLobby) =>
          eventually(() => enter(api, who, { lobbyId: host.lobbyId }), { timeoutMs: 60_000 });
        const back = await Promise.all([host, guest].map(comeBack));
        assert.equal(back[0]!.room.roomId, back[1]!.room.roomId);
        await eventuallyHolds(() => {
          assert.equal(memberIn(back[0]!, host)?.status, "JOINED");
          assert.equal(memberIn(back[0]!, guest)?.status, "READY");
        });
        const { version } = await back[1]!.room.request("lobby.ready", { ready: false });
        await eventually(() => back[0]!.room.state.version >= version);
        for (const { room } of back) await room.leave();
      }),
    );
  });
});
