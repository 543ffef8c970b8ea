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

  it("name their players, count effects, and go on after an event, oldest first", async () => {
    const { key } = await aTenant(api);
    const sent: string[] = [];
    for (const [externalUserId, eventType] of [
      ["eve", "a"],
      ["eve", "b"],
      ["dan", "c"],
    ])
      sent.push((await post("/events?wait=true", { externalUserId, eventType }, key)).body.eventId);
    const [first, second, third] = sent;
    await post("/players", { externalUserId: "dan", displayName: "Dan" }, key);
    const list = async (query: string) => (await get(`/events?${query}`, key)).body;
    const idsOf = async (query: string) => (await list(query)).data.map(({ id }: { id: string }) => id);
    assert.deepEqual(await idsOf("eventType=a,b"), [second, first]);
    assert.deepEqual(await idsOf("eventType=a&eventType=c"), [third, first]);
    assert.deepEqual(await idsOf(`after=${first}`), [second, third]);
    assert.deepEqual(await idsOf(`after=${first}&order=desc`), [third, second]);
    assert.deepEqual(await idsOf(`after=${third}`), []);
    const page = await list("order=asc&limit=2");
    assert.deepEqual(await idsOf(`order=asc&cursor=${page.pagination.nextCursor}`), [third]);
    const [dans] = (await list("include=effects&limit=1")).data;
    const { body: dan } = await get("/players/ext:dan", key);
    assert.deepEqual([dans.playerId, dans.displayName], [dan.id, "Dan"]);
    assert.deepEqual(dans.effectCounts, { "player.created": 1 });
    assert.deepEqual((await list(`after=${first}&limit=1&include=effects`)).data[0].effectCounts, {});
    assert.equal("effectCounts" in page.data[0], false);
    const { body: eve } = await get("/players/ext:eve", key);
    await post(`/players/${dan.id}/merge`, { sourcePlayerId: eve.id }, key);
    assert.equal((await get(`/events/${first}`, key)).body.displayName, "Dan");
    for (const query of ["order=up", "after=1", "include=all", "eventType=a,a"])
      assertError(await get(`/events?${query}`, key), 400);
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
