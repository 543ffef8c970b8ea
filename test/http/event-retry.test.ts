import assert from "node:assert/strict";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventually } from "../support/eventually.ts";
import { failed } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

describe("events, listed and tried again", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const get = (path: string, key = tenant.key): Promise<Answer> => api.get(`/api/v1${path}`, { key });
  const post = (path: string, body: unknown, key = tenant.key): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key });
  const send = async (externalUserId: string): Promise<string> =>
    (await post("/events?wait=true", { externalUserId, eventType: "seen" })).body.eventId;

  it("are those of one player, by id or external id, and of one source", async () => {
    const [ada, bob] = [await send("ada"), await send("bob")];
    const { body: player } = await get("/players/ext:ada");
    const idsOf = async (query: string) =>
      (await get(`/events?${query}`)).body.data.map(({ id }: { id: string }) => id);
    for (const ref of [player.id, "ext:ada"]) assert.deepEqual(await idsOf(`playerId=${ref}`), [ada]);
    assert.deepEqual(await idsOf("source=API"), [bob, ada]);
    assert.deepEqual(await idsOf("source=SCHEDULE"), []);
    assert.equal((await get(`/events/${ada}`)).body.source, "API");
    assert.equal((await get("/events?playerId=ext:nobody")).status, 404);
    assert.equal((await get(`/events?playerId=${player.id}`, (await aTenant(api)).key)).status, 404);
    assertError(await get("/events?source=MOON"), 400);
  });

  it("are tried again when they are FAILED, once, and only then", async () => {
    const id = await failed(api.app, tenant.projectId, await send("ada"));
    assert.equal((await get(`/events/${id}`)).body.status, "FAILED");
    const answers = await Promise.all([post(`/events/${id}/retry`, {}), post(`/events/${id}/retry`, {})]);
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409]);
    const { body } = answers.find(({ status }) => status === 200)!;
    assert.deepEqual([body.eventId, body.status, body.skipped], [id, "PENDING", false]);
    await eventually(async () => (await get(`/events/${id}`)).body.status === "PROCESSED");
    assertError(await post(`/events/${id}/retry`, {}), 409, "INVALID_STATE");
  });
});
