import assert from "node:assert/strict";
import { aTenant } from "../support/app/app.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { clientOf, must } from "../support/http/client.ts";
import { startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";
import { rulesOf } from "../support/rules/rules-api.ts";

describe("a web process and a worker, as operators start them", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
  });
  after(async () => {
    await services.remove();
    await directory.remove();
  });

  it("take an event to XP, to a rank and to a socket, and end with 0 when they are told to", async () => {
    const env = { ...services.env, PORT: "0", DEMO: "off", TRUSTED_PROXIES: "127.0.0.1/32" };
    const web = await startProcess(["serve"], { ...env, ROLES: "web" });
    const worker = await startProcess(["worker"], env);
    const [, url] = /"url":"(http[^"]+)"/.exec(web.output()) ?? [];
    assert.ok(url, web.output());
    const api = clientOf(url);
    const tenant = await aTenant(api);
    const board = { key: "xp", name: "XP", metric: { source: "XP" } };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const rules = rulesOf(api, tenant);
    await rules.publish();
    const player = await aPlayer(api, tenant.key);
    const me = await join(api, player.token, "player");

    const { status } = await rules.track(player.externalUserId);
    assert.equal(status, "PROCESSED");
    await eventually(() => me.named("player.xp").length > 0 && me.room.state.xp === 1);
    await eventuallyHolds(async () => {
      const path = `/api/v1/leaderboards/xp/entries?around=ext:${player.externalUserId}`;
      const { data } = must(await api.get(path, { key: tenant.key }), 200);
      assert.deepEqual([data[0].rank, data[0].score], [1, 1]);
    });

    for (const { child, ended, output } of [web, worker]) {
      child.kill("SIGTERM");
      assert.equal(await ended, 0, output());
    }
  });
});
