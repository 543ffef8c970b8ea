import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const NOWHERE = "00000000-0000-7000-8000-000000000000";

const fieldOf = (answer: Answer): string => {
  assertError(answer, 400);
  return answer.body.error.details[0].field as string;
};

type Told = { before: { displayName?: string }; after: { displayName?: string } };

describe("players", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const identify = (body: object, key = tenant.key) => api.post("/api/v1/players", body, { key });
  const patch = (ref: string, body: object, key = tenant.key) =>
    api.patch(`/api/v1/players/${ref}`, body, { key });
  const read = (ref: string, key = tenant.key) => api.get(`/api/v1/players/${ref}`, { key });
  const aPlayer = async (more: object = {}): Promise<{ id: string; ext: string }> => {
    const ext = `user-${randomUUID()}`;
    const { status, body } = await identify({ externalUserId: ext, ...more });
    assert.equal(status, 201, JSON.stringify(body));
    return { id: body.id, ext };
  };
  const outboxOf = (playerId: string): Promise<[type: string, seq: number, data: unknown][]> =>
    api.app.transact(async ({ db }) => {
      const result = await sql<{ type: string; seq: number; data: unknown }>`
        select type, player_seq as seq, data from outbox
        where player_id = ${playerId} order by player_seq`.execute(db);
      return result.rows.map(({ type, seq, data }) => [type, seq, data]);
    });
  /** The key's id, as causes name it. */
  const actor = async (): Promise<string> => {
    const [{ id }] = (await api.get(`/api/v1/projects/${tenant.projectId}/api-keys`, { token: tenant.token }))
      .body;
    return `key:${id}`;
  };

  it("and all else of a project take a date for a moment: when it begins in the project's time zone", async () => {
    const own = await aTenant(api);
    const { projectId, token, key } = own;
    must(await api.patch(`/api/v1/projects/${projectId}`, { timezone: "America/New_York" }, { token }), 200);
    const post = async (path: string, body: object) => (await api.post(`/api/v1${path}`, body, { key })).body;
    const get = (path: string) => api.get(`/api/v1${path}`, { key });
    const { id } = await post("/players", { externalUserId: "ny" });
    const future = await get(`/players/${id}/state?at=2099-01-01`);
    assert.match(future.body.error.message, /^at: is in the future/);
    const listed = async (query: string) => must(await get(`/players?${query}`), 200).data.length;
    assert.deepEqual([await listed("from=2099-01-01"), await listed("to=2099-01-01")], [0, 1]);
    const badge = { key: "fall", name: "Fall", availableFrom: "2026-11-01", availableUntil: "2026-11-02" };
    const { availableFrom, availableUntil } = await post("/badges", badge);
    assert.deepEqual(
      [availableFrom, availableUntil],
      ["2026-11-01T04:00:00.000Z", "2026-11-02T05:00:00.000Z"],
    );
    const boardOf = async (name: string, more: object) => {
      const period = { kind: "FIXED", startsAt: "2027-01-01", endsAt: "2027-01-02", ...more };
      const metric = { source: "CUSTOM" };
      return (await post("/leaderboards", { key: name, name, metric, operator: "BEST", period })).period;
    };
    assert.equal((await boardOf("own", {})).startsAt, "2027-01-01T05:00:00.000Z");
    assert.equal((await boardOf("tokyo", { timezone: "Asia/Tokyo" })).startsAt, "2026-12-31T15:00:00.000Z");
    const exported = must(await get("/config/export"), 200);
    exported.badges[0].availableUntil = "2026-11-03";
    must(await api.post("/api/v1/config/import", { document: exported }, { key }), 200);
    assert.equal(must(await get("/badges/fall"), 200).availableUntil, "2026-11-03T05:00:00.000Z");
    const moved = { ...exported, timezone: "Asia/Tokyo" };
    must(await api.post("/api/v1/config/import", { document: moved }, { token }), 200);
    assert.equal(must(await get("/badges/fall"), 200).availableUntil, "2026-11-02T15:00:00.000Z");
    for (const wrong of ["2026-02-30", "1969-12-31", "2026-11", "yesterday"])
      assert.equal(fieldOf(await get(`/players/${id}/state?at=${wrong}`)), "at");
  });

  it("have a recap of days of their time zone, or of moments", async () => {
    const { externalUserId } = must(
      await identify({ externalUserId: "kiwi", timezone: "Pacific/Auckland" }),
      201,
    );
    const recap = (from: string, to: string) => read(`ext:${externalUserId}/recap?from=${from}&to=${to}`);
    const days = must(await recap("2026-04-05", "2026-04-06T00:00:00Z"), 200);
    assert.deepEqual([days.from, days.to], ["2026-04-04T11:00:00.000Z", "2026-04-06T00:00:00.000Z"]);
    // Clocks go back in that night.
    assert.equal(must(await recap("2026-04-05", "2026-04-06"), 200).to, "2026-04-05T12:00:00.000Z");
    assertError(await recap("2026-04-06", "2026-04-06"), 400);
    assertError(await recap("1969-12-31", "2026-04-06"), 400);
    assertError(await recap("2026-02-30", "2026-04-06"), 400);
  });

  it("are listed once each by the cursor, whoever is made meanwhile", async () => {
    const own = await aTenant(api);
    const make = async (n: number) =>
      must(await api.post("/api/v1/players", { externalUserId: `p${n}` }, { key: own.key }), 201);
    for (const n of [1, 2, 3, 4, 5]) await make(n);
    const page = (query: string) => api.get(`/api/v1/players?limit=2&${query}`, { key: own.key });
    for (const [order, expected] of [
      ["desc", ["p5", "p4", "p3", "p2", "p1"]],
      ["asc", ["p1", "p2", "p3", "p4", "p5", "p6", "p7"]],
    ] as const) {
      const seen: string[] = [];
      let cursor = "";
      for (let n = 6; ; n++) {
        const { data, pagination } = must(await page(`order=${order}${cursor}`), 200);
        seen.push(...data.map((one: { externalUserId: string }) => one.externalUserId));
        if (pagination.nextCursor === null) break;
        cursor = `&cursor=${pagination.nextCursor}`;
        if (order === "desc") await make(n);
      }
      assert.deepEqual(seen, expected);
    }
    const whole = must(await api.get("/api/v1/players?limit=7", { key: own.key }), 200);
    assert.deepEqual([whole.data.length, whole.pagination.nextCursor], [7, null]);
    const { data, pagination } = must(await page("sort=xp"), 200);
    assert.equal(pagination.nextCursor, null);
    for (const query of [
      `sort=xp&cursor=${data[0].id}`,
      `page=2&cursor=${data[0].id}`,
      `cursor=${randomUUID()}`,
    ])
      assertError(await page(query), 400);
  });

  describe("when identified", () => {
    it("are told of fields that no player has, alone, in a batch and in a change", async () => {
      const externalUserId = `user-${randomUUID()}`;
      const misspelt = { externalUserId, displayname: "Ada" };
      const warnings = ["displayname: not a field of a player, and ignored"];
      const { body } = await identify(misspelt);
      assert.deepEqual([body.warnings, body.displayName], [warnings, null]);
      assert.deepEqual((await patch(body.id, { displayname: "Ada" })).body.warnings, warnings);
      assert.equal((await patch(body.id, { displayName: "Ada" })).body.warnings, undefined);
      const players = [misspelt, { externalUserId }];
      const { results } = (await api.post("/api/v1/players/batch", { players }, { key: tenant.key })).body;
      assert.deepEqual([results[0].warnings, results[1].warnings], [warnings, undefined]);
    });

    it("are made with 201 and exactly the documented fields, then changed with 200", async () => {
      const externalUserId = `user-${randomUUID()}`;
      const made = await identify({ externalUserId });
      assert.equal(made.status, 201);
      const { id, createdAt, updatedAt, firstSeenAt, ...rest } = made.body;
      assert.deepEqual([createdAt, createdAt], [updatedAt, firstSeenAt]);
      assert.deepEqual(rest, {
        externalUserId,
        displayName: null,
        xp: 0,
        level: 1,
        levelProgress: {
          level: 1,
          levelName: null,
          xpForLevel: 0,
          xpForNextLevel: 100,
          percent: 0,
          maxLevel: 100,
        },
        currencies: {},
        lives: null,
        status: "ACTIVE",
        avatarUrl: null,
        timezone: null,
        locale: null,
        country: null,
        attributes: {},
        metadata: {},
        tags: [],
        seq: 1,
        lastSeenAt: null,
      });
      const again = await identify({ externalUserId, displayName: "Ada" });
      assert.deepEqual(
        [again.status, again.body.id, again.body.displayName, again.body.seq],
        [200, id, "Ada", 2],
      );
    });

    it("were seen when their events happened, in whatever order these come", async () => {
      const days = ["2026-02-01", "2026-01-01", "2026-03-01"].map((day) => `${day}T12:00:00.000Z`);
      const externalUserId = randomUUID();
      for (const timestamp of days) {
        const event = { externalUserId, eventType: "hit", timestamp };
        const answer = await api.post("/api/v1/events?wait=true", event, { key: tenant.key });
        assert.equal(answer.body.status, "PROCESSED");
      }
      const { firstSeenAt, lastSeenAt } = (await read(`ext:${externalUserId}`)).body;
      assert.deepEqual([firstSeenAt, lastSeenAt], [days[1], days[2]]);
    });

    it("are told of once, with what they are", async () => {
      const { id, ext } = await aPlayer({
        displayName: "Ada",
        attributes: { city: "London", gone: null },
        metadata: { secret: 1 },
        tags: ["vip", "vip"],
      });
      const { createdAt } = (await read(id)).body;
      assert.deepEqual(await outboxOf(id), [
        [
          "player.created",
          1,
          {
            playerId: id,
            externalUserId: ext,
            displayName: "Ada",
            xp: 0,
            level: 1,
            attributes: { city: "London" },
            tags: ["vip"],
            source: "IDENTIFY",
            createdAt,
          },
        ],
      ]);
    });

    it("keep what a second identification does not name", async () => {
      const { id, ext } = await aPlayer({
        displayName: "Ada",
        country: "GB",
        tags: ["a"],
        metadata: { m: 1 },
      });
      const { body } = await identify({ externalUserId: ext, locale: "pt-BR", tags: ["b"] });
      assert.deepEqual(
        [body.id, body.displayName, body.country, body.locale, body.tags, body.metadata],
        [id, "Ada", "GB", "pt-BR", ["a", "b"], { m: 1 }],
      );
    });

    it("need a fit externalUserId", async () => {
      assert.equal((await identify({ externalUserId: "x".repeat(255) })).status, 201);
      for (const externalUserId of ["", "x".repeat(256), 7, null, undefined]) {
        assert.equal(fieldOf(await identify({ externalUserId })), "externalUserId");
      }
    });
  });

  describe("when read", () => {
    it("are found by UUID in any case and by external id, however it is written", async () => {
      const ids = [
        "a/b c",
        "50%",
        "ä🎮",
        "ext:ext:x",
        "a+b",
        "?#&=",
        "00000000-0000-0000-0000-000000000000",
        "..",
      ];
      for (const name of ids) {
        const externalUserId = `${name}${randomUUID()}`;
        const { body } = await identify({ externalUserId });
        const byExternal = await read(encodeURIComponent(`ext:${externalUserId}`));
        assert.equal(byExternal.body.id, body.id, externalUserId);
        assert.equal((await read(body.id.toUpperCase())).body.externalUserId, externalUserId);
      }
    });

    it("answer 404 for what is no player, and never look a plain text up as an external id", async () => {
      const { ext } = await aPlayer();
      for (const ref of [NOWHERE, ext, "ext:", "ext:nobody", "me", "EXT%3Ax"]) {
        assertError(await read(ref), 404);
        assertError(await patch(ref, {}), 404);
        assertError(await api.post(`/api/v1/players/${ref}/xp`, { amount: 1 }, { key: tenant.key }), 404);
      }
    });
  });

  describe("when changed", () => {
    it("merge attributes, in which null removes and a list replaces", async () => {
      const { id } = await aPlayer({ attributes: { a: 1, b: [1, 2], c: { d: 1 }, e: true } });
      const { status, body } = await patch(id, { attributes: { a: null, b: [3], c: { f: null }, g: "" } });
      assert.equal(status, 200);
      assert.deepEqual(body.attributes, { b: [3], c: { f: null }, e: true, g: "" });
      assert.deepEqual((await patch(id, { attributes: { nobody: null } })).body.attributes, body.attributes);
    });

    it("clear a field with null, keep an absent one, and replace metadata whole", async () => {
      const profile = {
        displayName: "Ada",
        avatarUrl: "https://example.com/a.png",
        locale: "en",
        country: "GB",
      };
      const { id } = await aPlayer({ ...profile, timezone: "Asia/Kolkata", metadata: { a: 1, b: 2 } });
      assert.equal((await read(id)).body.timezone, "Asia/Kolkata");
      const { body } = await patch(id, {
        displayName: null,
        avatarUrl: null,
        locale: null,
        timezone: null,
        metadata: { c: null },
      });
      assert.deepEqual(
        [body.displayName, body.avatarUrl, body.locale, body.timezone, body.country, body.metadata],
        [null, null, null, null, "GB", { c: null }],
      );
    });

    it("are told one after another, however the player is named by those who change it at once", async () => {
      const { id, ext } = await aPlayer({ displayName: "Zero" });
      for (const second of ["Zero", "Two"]) {
        const answers = await Promise.all([
          aPlayer(),
          patch(id, { displayName: second }),
          identify({ externalUserId: ext, displayName: "One" }),
          patch(id, { displayName: second }),
        ]);
        assert.ok(answers.every((answer) => !("status" in answer) || answer.status === 200));
        const told = (await outboxOf(id)).slice(1).map(([, , data]) => data as Told);
        for (const [n, { before }] of told.entries())
          assert.equal(before.displayName, n === 0 ? "Zero" : told[n - 1]!.after.displayName);
        assert.equal((await read(id)).body.displayName, told.at(-1)!.after.displayName);
      }
    });

    it("tell every difference in one player.updated, and nothing when there is none", async () => {
      const { id, ext } = await aPlayer({ displayName: "Ada", attributes: { a: 1 }, tags: ["x", "y"] });
      const change = {
        displayName: "Grace",
        country: "US",
        attributes: { a: null, b: { c: 2 } },
        addTags: ["z"],
        removeTags: ["x"],
      };
      await patch(id, change);
      const cause = { kind: "API", actor: await actor() };
      const before = { displayName: "Ada", country: null, attributes: { a: 1 }, tags: ["x", "y"] };
      const after = {
        displayName: "Grace",
        country: "US",
        attributes: { b: { c: 2 } },
        tags: ["y", "z"],
      };
      const expected = {
        playerId: id,
        externalUserId: ext,
        changed: Object.keys(after),
        before,
        after,
        cause,
      };
      assert.deepEqual((await outboxOf(id)).slice(1), [["player.updated", 2, expected]]);

      await patch(id, change);
      await patch(id, {});
      await patch(id, { displayName: "Grace", attributes: {}, addTags: ["z"], removeTags: ["nobody"] });
      assert.equal((await outboxOf(id)).length, 2);
      assert.equal((await read(id)).body.seq, 2);
    });
  });
});
