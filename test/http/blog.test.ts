import assert from "node:assert/strict";
import { newId } from "../../src/domain/kernel/ids.ts";
import { anAdmin, aPlatformToken } from "../support/app/admin.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

type Post = Record<string, unknown> & { slug: string };

describe("blog posts", () => {
  let admin: string;
  let machine: string;
  /** Of one test: the posts of all tests are in one blog. */
  let mark: string;
  const api = madeOnce(startApp);
  before(async () => {
    admin = (await anAdmin(api)).token;
    machine = await aPlatformToken(api, admin);
  });
  beforeEach(() => {
    mark = newId().slice(-12);
  });

  const slug = (name: string) => `${name}-${mark}`;
  const post = (name: string, more: object = {}): Post => ({
    slug: slug(name),
    title: `The ${name}`,
    postDate: "2026-03-01",
    tags: [mark],
    ...more,
  });
  const sync = (posts: unknown, token = machine) =>
    api.post("/api/v1/superadmin/blog-posts/sync", { posts }, { token });
  const counts = async (posts: Post[]) => {
    const { success, message, ...rest } = must(await sync(posts), 200);
    assert.equal(success, true);
    assert.equal(typeof message, "string");
    return rest;
  };
  const list = async (query = "") => must(await api.get(`/api/v1/blog-posts?tag=${mark}${query}`), 200);
  const titles = async (query = "") => (await list(query)).data.map(({ title }: { title: string }) => title);
  const get = (name: string) => api.get(`/api/v1/blog-posts/${slug(name)}`);

  it("are made, changed and left alone by one call, which counts each kind", async () => {
    const posts = [post("one"), post("two"), post("three")];
    assert.deepEqual(await counts(posts), { created: 3, updated: 0, total: 3 });
    assert.deepEqual(await counts(posts), { created: 0, updated: 0, total: 3 });
    const next = [posts[0]!, post("two", { title: "New" }), post("four")];
    assert.deepEqual(await counts(next), { created: 1, updated: 1, total: 3 });
    assert.equal(must(await get("two"), 200).title, "New");
    must(await get("three"), 200);
    assert.deepEqual(await counts([]), { created: 0, updated: 0, total: 0 });
  });

  it("answer exactly the documented fields", async () => {
    const body = must(await sync([post("one")]), 200);
    assert.deepEqual(Object.keys(body).toSorted(), ["created", "message", "success", "total", "updated"]);
    const full = post("full", {
      tags: [mark, "b"],
      featured: true,
      postDate: "2026-03-01T10:00:00+02:00",
      excerpt: "Short",
      author: "Ada",
    });
    must(await sync([full]), 200);
    const { updatedAt, ...shown } = must(await get("full"), 200);
    assert.ok(updatedAt);
    assert.deepEqual(shown, {
      slug: slug("full"),
      title: "The full",
      tags: [mark, "b"],
      featured: true,
      postDate: "2026-03-01T08:00:00.000Z",
      excerpt: "Short",
      author: "Ada",
    });
  });

  it("take their defaults where a later call leaves fields out", async () => {
    must(await sync([post("one", { featured: true, excerpt: "Short", author: "Ada" })]), 200);
    assert.deepEqual(await counts([post("one")]), { created: 0, updated: 1, total: 1 });
    const shown = must(await get("one"), 200);
    assert.deepEqual([shown.featured, shown.excerpt, shown.author], [false, null, null]);
    assert.equal(shown.postDate, "2026-03-01T00:00:00.000Z");
  });

  it("refuse a slug that comes twice, with nothing stored", async () => {
    const twins = await sync([post("one"), post("two"), post("one", { title: "Other" })]);
    assertError(twins, 400);
    assert.equal(twins.body.error.details[0].field, "posts.2.slug");
    const many = (count: number) => Array.from({ length: count }, (_, at) => post(`p${at}`));
    assert.deepEqual(await titles(), []);
    assert.deepEqual(await counts(many(500)), { created: 500, updated: 0, total: 500 });
  });

  it("are stored all or none, and refuse bad values by their place", async () => {
    const bad = [{ slug: "Upper" }, { postDate: "2026-02-30" }, { title: "a\u0000b" }];
    for (const one of bad) {
      const answer = await sync([post("fine"), post("bad", one)]);
      assertError(answer, 400);
      assert.match(answer.body.error.details[0].field, /^posts\.1\./, JSON.stringify(one));
    }
    assert.deepEqual(await titles(), []);
  });

  it("are public, newest first, by tag and featured, page by page", async () => {
    must(
      await sync([
        post("old", { postDate: "2024-01-01" }),
        post("new", { postDate: "2026-01-01", featured: true }),
        post("middle", { postDate: "2025-01-01T12:00:00Z" }),
      ]),
      200,
    );
    assert.deepEqual(await titles(), ["The new", "The middle", "The old"]);
    assert.deepEqual(await titles("&order=asc"), ["The old", "The middle", "The new"]);
    assert.deepEqual(await titles("&featured=true"), ["The new"]);
    assert.deepEqual(await titles("&featured=false"), ["The middle", "The old"]);
    assert.deepEqual(await titles("&limit=1&page=2&sort=postDate"), ["The middle"]);
    assert.deepEqual((await list("&limit=2")).pagination, { page: 1, limit: 2, total: 3, totalPages: 2 });
    for (const bad of ["featured=x", "sort=title", "limit=0", "bogus=1"])
      assertError(await api.get(`/api/v1/blog-posts?${bad}`), 400);
  });

  it("are hidden while drafts", async () => {
    must(await sync([post("one", { draft: true })]), 200);
    assert.deepEqual(await titles(), []);
    assertError(await get("one"), 404);
    assertError(await get("never"), 404);
    assert.deepEqual(await counts([post("one")]), { created: 0, updated: 1, total: 1 });
    must(await get("one"), 200);
  });
});
