import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("the projects of a tenant", () => {
  const create = (body: object = {}) =>
    api.post("/api/v1/projects", { name: "Game", ...body }, { token: tenant.token });
  const names = async (query: string): Promise<string[]> =>
    must(await api.get(`/api/v1/projects${query}`, { token: tenant.token }), 200).data.map(
      ({ name }: { name: string }) => name,
    );

  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  it("are sorted and searched by what is asked for", async () => {
    for (const name of ["Beta", "Alpha 100%", "Gamma_x"]) must(await create({ name }), 201);
    const found = await names("?sort=name&order=asc");
    assert.deepEqual(found, ["Alpha 100%", "Beta", "Gamma_x", "Test Game"]);
    assert.deepEqual(await names("?sort=name"), found.toReversed());
    assert.deepEqual(await names("?order=asc"), ["Test Game", "Beta", "Alpha 100%", "Gamma_x"]);
    const { token, projectId } = tenant;
    await api.patch(`/api/v1/projects/${projectId}`, { description: "Changed last" }, { token });
    assert.equal((await names("?sort=updatedAt&limit=1"))[0], "Test Game");
    assert.deepEqual(await names("?search=ALPHA"), ["Alpha 100%"]);
    assert.deepEqual(await names("?search=%25"), ["Alpha 100%"]);
    assert.deepEqual(await names("?search=_"), ["Gamma_x"]);
    assert.deepEqual(await names("?search=nothing"), []);
    for (const query of ["?sort=id"]) assertError(await api.get(`/api/v1/projects${query}`, { token }), 400);
  });
});
