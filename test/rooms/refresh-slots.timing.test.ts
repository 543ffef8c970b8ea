import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import type { TransactAs } from "../../src/domain/kernel/work.ts";
import { refreshPauseMs } from "../../src/rooms/refreshed-room.ts";
import { tickAll } from "../../src/rooms/mirror-room.ts";
import { aKey, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { aPlayer, join, type Listener } from "../support/rooms/sdk.ts";

const ROOMS = 30;
const BOARD_ROOMS = 8;
const AT_ONCE = 2;
const PROJECTS = 4;
const OF_TENANT_AT_ONCE = 3;

describe("refreshes of rooms", () => {
  let api: TestApp;
  let tenant: Tenant;
  let transactAs: TransactAs;
  /** Reads of the project's rooms in progress, the most at once, and all that were begun. */
  let reads: { active: number; most: number; begun: number };
  /** Holds all of them until it is resolved. */
  let held: PromiseWithResolvers<void>;
  let open: Listener[];
  let projectIds: Set<string>;

  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });
  beforeEach(() => {
    reads = { active: 0, most: 0, begun: 0 };
    held = Promise.withResolvers();
    held.resolve();
    open = [];
    projectIds = new Set([tenant.projectId]);
    ({ transactAs } = api.app);
    api.app.transactAs = counting;
  });
  afterEach(async () => {
    api.app.transactAs = transactAs;
    held.resolve();
    for (const { room } of open) await room.leave();
  });

  /** Counts and holds the reads of rooms: their scope has a project and no tenant. */
  const counting: TransactAs = (scope) => async (run) => {
    const isOfRoom = scope.role === "web" && scope.tenantId === "";
    if (!isOfRoom || !projectIds.has(scope.projectIds[0]!)) return transactAs(scope)(run);
    reads.begun++;
    reads.most = Math.max(reads.most, ++reads.active);
    try {
      await held.promise;
      return await transactAs(scope)(run);
    } finally {
      reads.active--;
    }
  };

  const holdReads = async (): Promise<void> => {
    await eventually(() => reads.active === 0);
    Object.assign(reads, { most: 0, begun: 0 });
    held = Promise.withResolvers();
  };

  const aLobby = async (metadata: object, key = tenant.key): Promise<void> => {
    const lobby = { name: "new", mode: "duel", maxPlayers: 4, metadata };
    must(await api.post("/api/v1/lobbies", lobby, { key }), 201);
  };

  const shows = ({ room }: Listener): boolean => room.state.lobbies?.size === 1;

  /** Lets the held reads go once no more than may be at once have begun. */
  const release = async (atOnce = AT_ONCE): Promise<void> => {
    await eventually(() => reads.active >= atOnce);
    // Whichever else would begin has begun when the pause between two reads is over.
    await delay(1_000);
    assert.equal(reads.active, atOnce);
    held.resolve();
  };

  it("run two at a time for a project, and every room shows the change", async () => {
    const filters = Array.from({ length: ROOMS }, (_, n) => [`filter${n}`, true] as const);
    for (const filter of filters) {
      const { token } = await aPlayer(api, tenant.key);
      open.push(await join(api, token, "lobbies", { metadata: Object.fromEntries([filter]) }));
    }
    assert.equal(new Set(open.map(({ room }) => room.roomId)).size, ROOMS);
    await holdReads();
    await aLobby(Object.fromEntries(filters));
    await release();
    await eventually(() => open.every(shows), { label: "every room shows the new lobby" });
    assert.equal(reads.most, AT_ONCE);
    assert.ok(reads.begun >= ROOMS);
  });

  it("run two at a time for leaderboards as well", async () => {
    const board = { key: "board", name: "Board", metric: { source: "CUSTOM" }, operator: "LATEST" };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const { token } = await aPlayer(api, tenant.key);
    for (let top = 1; top <= BOARD_ROOMS; top++)
      open.push(await join(api, token, "leaderboard", { leaderboardKey: "board", top }));
    assert.equal(new Set(open.map(({ room }) => room.roomId)).size, BOARD_ROOMS);
    await holdReads();
    tickAll();
    await release();
    await eventually(() => reads.begun >= BOARD_ROOMS, { label: "every room reads its board again" });
    assert.equal(reads.most, AT_ONCE);
  });

  it("run three at a time for a tenant, however many projects it has", async () => {
    const { token: owner } = tenant;
    const keys: string[] = [];
    for (let n = 0; n < PROJECTS; n++) {
      const { id } = must(await api.post("/api/v1/projects", { name: `P${n}` }, { token: owner }), 201);
      projectIds.add(id);
      keys.push(await aKey(api, { token: owner, projectId: id }));
    }
    for (const key of keys) {
      const { token } = await aPlayer(api, key);
      for (const mode of ["", "duel"]) open.push(await join(api, token, "lobbies", { mode }));
    }
    await holdReads();
    for (const key of keys) await aLobby({}, key);
    await release(OF_TENANT_AT_ONCE);
    await eventually(() => open.every(shows), { label: "every room shows the new lobby" });
    assert.equal(reads.most, OF_TENANT_AT_ONCE);
  });

  it("are further apart the more rooms there are", () => {
    const pause = { min: 250, max: 2_500 };
    const pauses = [1, 100, 450, 5_000].map((rooms) => refreshPauseMs(pause, { watchers: 1, rooms }));
    assert.deepEqual(pauses, [250, 250.5, 1_125.5, 2_500]);
  });
});
