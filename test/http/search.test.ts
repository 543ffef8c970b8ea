import assert from "node:assert/strict";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

type Found = { kind: string; id: string; key: string | null; name: string | null };

describe("GET /search", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const post = async (path: string, body: object) =>
    must(await api.post(`/api/v1${path}`, body, { key: tenant.key }), 201);
  const found = async (q: string, as: object = { key: tenant.key }): Promise<Found[]> =>
    must(await api.get(`/api/v1/search?q=${encodeURIComponent(q)}&projectId=${tenant.projectId}`, as), 200)
      .data;
  const shown = async (q: string, as?: object): Promise<string[]> =>
    (await found(q, as)).map(({ kind, key, name }) => `${kind} ${key} ${name}`);

  it("finds definitions by part of name or key, what begins with it first, and nothing of others", async () => {
    await post("/currencies", { key: "coins", name: "Gold coins" });
    await post("/currencies", { key: "gold", name: "Gold" });
    await post("/currencies", { key: "fools", name: "Fool's gold" });
    await post("/badges", { key: "golden", name: "Golden" });
    const { id } = await post("/badges", { key: "gold-once", name: "Gone" });
    must(await api.delete(`/api/v1/badges/${id}`, { key: tenant.key }), 200);
    assert.deepEqual(await shown("gOLD"), [
      "badge golden Golden",
      "currency gold Gold",
      "currency coins Gold coins",
      "currency fools Fool's gold",
    ]);
    assert.deepEqual(await shown("%"), []);
    const other = await aTenant(api);
    assert.deepEqual(must(await api.get("/api/v1/search?q=gold", { key: other.key }), 200).data, []);
  });

  it("finds five players by the beginning of name or external id, first of all", async () => {
    await post("/currencies", { key: "adamant", name: "Adamant" });
    for (const externalUserId of ["u1", "u2", "Ada-7"])
      await post("/players", { externalUserId, displayName: `Ada Lovelace ${externalUserId}` });
    await post("/players", { externalUserId: "u3", displayName: "Not Ada" });
    await post("/players", { externalUserId: "ada-8" });
    assert.deepEqual(await shown("ada"), [
      "player Ada-7 Ada Lovelace Ada-7",
      "player u1 Ada Lovelace u1",
      "player u2 Ada Lovelace u2",
      "player ada-8 null",
      "currency adamant Adamant",
    ]);
    assert.equal((await found("ada lov")).length, 3);
    for (let i = 0; i < 6; i++) await post("/players", { externalUserId: `bob-${i}` });
    assert.equal((await found("bob")).length, 5);
    assert.deepEqual(await found("ovelace"), []);
  });

  it("leaves out what the caller may not list", async () => {
    const { token, projectId } = tenant;
    await post("/players", { externalUserId: "gold-digger" });
    await post("/currencies", { key: "gold", name: "Gold" });
    const url = "https://example.com/gold";
    must(await api.post("/api/v1/webhooks", { url, events: ["*"], projectId }, { token }), 201);
    const viewer = await aMember(api, tenant.tenantId, "VIEWER");
    assert.deepEqual(await shown("gold", { token: viewer.token }), [
      "player gold-digger null",
      "currency gold Gold",
    ]);
    assert.deepEqual((await shown("gold", { token })).at(-1), `webhook null ${url}`);
    const key = await aKey(api, { token, projectId, scopes: ["projects:read", "players:read"] });
    assert.deepEqual(await shown("gold", { key }), ["player gold-digger null"]);
  });

  it("refuses texts that are empty or too long", async () => {
    for (const q of ["", "%20", "x".repeat(101), "%00"])
      assertError(await api.get(`/api/v1/search?q=${q}`, { key: tenant.key }), 400);
    assertError(await api.get("/api/v1/search", { key: tenant.key }), 400);
  });
});
