import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { madeOnce } from "../support/made.ts";

const fieldOf = (answer: Answer): string => {
  assertError(answer, 400);
  return answer.body.error.details[0].field as string;
};

describe("profiles of players", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const identify = (body: object) => api.post("/api/v1/players", body, { key: tenant.key });
  const patch = (ref: string, body: object) => api.patch(`/api/v1/players/${ref}`, body, { key: tenant.key });
  const read = (ref: string) => api.get(`/api/v1/players/${ref}`, { key: tenant.key });
  const aPlayer = async (more: object = {}): Promise<{ id: string; ext: string }> => {
    const ext = `user-${randomUUID()}`;
    const { status, body } = await identify({ externalUserId: ext, ...more });
    assert.equal(status, 201, JSON.stringify(body));
    return { id: body.id, ext };
  };

  it("stay within 100 attributes, 8 KiB, depth 3 and 50 tags, counted with what is there", async () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`k${n}`, n]));
    const tags = Array.from({ length: 50 }, (_, n) => `t${n}`);
    const { id, ext } = await aPlayer({ attributes: many, tags });
    const tooMuch = [
      { attributes: { another: 1 } },
      { attributes: { k0: "x".repeat(8_200) } },
      { attributes: { k0: { a: { b: { c: 1 } } } } },
      { addTags: ["another"] },
    ];
    for (const body of tooMuch) {
      const field = "addTags" in body ? "tags" : "attributes";
      assert.equal(fieldOf(await patch(id, body)), field);
      assert.equal(fieldOf(await identify({ externalUserId: ext, ...body, tags: body.addTags })), field);
    }
    assertError(
      await identify({ externalUserId: randomUUID(), attributes: { a: { b: { c: { d: 1 } } } } }),
      400,
    );
    const swapped = await patch(id, {
      attributes: { k0: null, another: { a: { b: 1 } } },
      addTags: ["another"],
      removeTags: ["t0"],
    });
    assert.equal(swapped.status, 200, JSON.stringify(swapped.body));
    assert.equal(swapped.body.tags.length, 50);
  });

  it("leave no player behind when the first identification is refused", async () => {
    const externalUserId = `user-${randomUUID()}`;
    assertError(await identify({ externalUserId, attributes: { a: { b: { c: { d: 1 } } } } }), 400);
    assertError(await read(`ext:${externalUserId}`), 404);
  });
});
