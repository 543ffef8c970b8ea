import assert from "node:assert/strict";
import { firstAdminLogin } from "../support/mfa/second-factor.ts";
import { aPlayer, join, type Listener, type Player } from "../support/rooms/sdk.ts";
import { laurelAdmin } from "../support/processes/command.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Client, must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { type RedisServer, startRedis } from "../support/processes/services.ts";
import { startWebCluster, type Web, type WebCluster } from "../support/processes/two-servers.ts";
import { pluck } from "../support/pluck.ts";

const EMAIL = "root@platform.example.com";
const PASSWORD = "Root-of-7-trees";

type Seated = Player & Listener;
type Process = {
  processId: string;
  pid: number | null;
  isAnswering: boolean;
  rooms: { player: number } | null;
};

describe("super-admins and the rooms of two web processes", () => {
  let redis: RedisServer;
  let cluster: WebCluster;
  let token: string;
  /** The player whose room each process has. */
  let seated: Seated[];

  const ask = (client: Client, path: string) => client.get(`/api/v1/admin/${path}`, { token });
  const processes = async (client: Client): Promise<Process[]> =>
    must(await ask(client, "processes"), 200).data;
  const disconnect = (client: Client, { room }: Listener) =>
    client.post(
      `/api/v1/admin/rooms/${room.roomId}/clients/${room.sessionId}/disconnect`,
      { reason: "It hangs" },
      { token },
    );
  const seat = async (web: Web): Promise<Seated> => {
    const player = await aPlayer(web.client, cluster.tenant.key);
    return Object.assign(await join(web.client, player.token, "player"), player);
  };

  before(async () => {
    redis = await startRedis();
    cluster = await startWebCluster(2, { REDIS_URL: redis.url });
    await laurelAdmin(["create", "--email", EMAIL], cluster.services.env, PASSWORD);
    const login = { email: EMAIL, password: PASSWORD };
    token = await firstAdminLogin(cluster.api, login);
    seated = [await seat(cluster.webs[0]!), await seat(cluster.webs[1]!)];
  });
  after(async () => {
    for (const { child } of cluster?.webs ?? []) child.kill("SIGCONT");
    await cluster?.stop();
    await redis?.kill();
  });

  it("see all rooms at any process, by whichever filter, and look into those of another", async () => {
    const { projectId } = cluster.tenant;
    for (const { client } of cluster.webs) {
      for (const filter of ["", "?kind=player", `?projectId=${projectId}`]) {
        const { data, pagination } = must(await ask(client, `rooms${filter}`), 200);
        assert.equal(pagination.total, 2);
        assert.equal(new Set(data.map(({ processId }: Process) => processId)).size, 2);
        assert.deepEqual(
          data.map(({ subject }: { subject: string }) => subject).toSorted(),
          seated.map(({ playerId }) => playerId).toSorted(),
        );
        const [{ processId, roomId }] = data;
        const own = must(await ask(client, `rooms?processId=${processId}`), 200).data;
        assert.deepEqual(pluck(own, "roomId"), [roomId]);
      }
      assert.equal(must(await ask(client, "rooms?kind=chat"), 200).pagination.total, 0);
      for (const { room, playerId } of seated) {
        const shown = must(await ask(client, `rooms/${room.roomId}`), 200);
        assert.equal(shown.state.playerId, playerId);
        assert.deepEqual(pluck(shown.sessions, "sessionId", "playerId"), [[room.sessionId, playerId]]);
      }
    }
  });

  it("end a session at another process, which the client comes back from", async () => {
    const [here, there] = cluster.webs as [Web, Web];
    const [, theirs] = seated as [Seated, Seated];
    assert.deepEqual(must(await disconnect(here.client, theirs), 200), { disconnected: true });
    await eventually(() => theirs.left);
    assert.equal(theirs.left!.code, 4001);
    const back = await eventually(() => join(there.client, theirs.token, "player"));
    assert.equal(back.room.roomId, theirs.room.roomId);
    const { token: own, playerId, externalUserId } = theirs;
    seated[1] = Object.assign(back, { token: own, playerId, externalUserId });
  });

  it("are told when a process does not answer, and see nothing of it once it counts as dead", async () => {
    const [here, there] = cluster.webs as [Web, Web];
    const { room } = seated[1]!;
    there.child.kill("SIGSTOP");
    assertError(await ask(here.client, `rooms/${room.roomId}`), 503, "PROCESS_SILENT");
    assertError(await disconnect(here.client, seated[1]!), 503, "PROCESS_SILENT");
    await eventuallyHolds(
      async () => {
        assert.equal((await processes(here.client)).length, 1);
        assertError(await ask(here.client, `rooms/${room.roomId}`), 404);
        assert.equal(must(await ask(here.client, "rooms"), 200).pagination.total, 1);
      },
      { timeoutMs: 60_000 },
    );
    there.child.kill("SIGCONT");
    await eventuallyHolds(
      async () => {
        assert.equal((await processes(here.client)).filter(({ isAnswering }) => isAnswering).length, 2);
        must(await ask(here.client, `rooms/${room.roomId}`), 200);
      },
      { timeoutMs: 60_000 },
    );
  });

  it("are told when the listing cannot be read, and see the rooms again when it is back, empty", async () => {
    const { client } = cluster.webs[0]!;
    await redis.kill();
    for (const path of ["rooms", "processes", `rooms/${seated[0]!.room.roomId}`])
      await eventuallyHolds(async () => assertError(await ask(client, path), 503, "ROOMS_UNAVAILABLE"));
    await redis.start();
    await eventuallyHolds(
      async () => {
        assert.equal(must(await ask(client, "rooms"), 200).pagination.total, 2);
        assert.equal((await processes(client)).length, 2);
        must(await ask(client, `rooms/${seated[1]!.room.roomId}`), 200);
      },
      { timeoutMs: 60_000 },
    );
  });
});
