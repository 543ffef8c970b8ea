import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { aKey, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { laurel as laurelWith } from "../support/processes/command.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";
import { onTerminal } from "../support/processes/terminal.ts";

const EDITED = { format: "laurel/1", currencies: [{ key: "coins", name: "Gold" }], badges: [] as object[] };
const TWO_CHANGES = "~ currencies coins: name\n+ badges found\n1 added, 1 changed, 0 archived\n";

describe("laurel config", () => {
  let api: TestApp;
  let tenant: Tenant;
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  before(async () => {
    api = await startApp();
  });
  beforeEach(async () => {
    dir = await temporaryDir();
    tenant = await aTenant(api);
    must(await api.post("/api/v1/currencies", { key: "coins", name: "Coins" }, { key: tenant.key }), 201);
  });
  afterEach(() => dir.remove());

  const laurel = (args: string[], input?: string) => laurelWith(["config", ...args], {}, input);
  const as = (key = tenant.key) => ["--key", key, "--url", api.url];
  const aFile = async (document: unknown, name = "game.json"): Promise<string> => {
    const path = join(dir.path, name);
    await writeFile(path, typeof document === "string" ? document : JSON.stringify(document));
    return path;
  };
  const changed = (more: object = {}) =>
    aFile({ ...EDITED, badges: [{ key: "found", name: "Found" }], ...more });
  const currencies = async () => {
    const { body } = await api.get("/api/v1/config/export", { key: tenant.key });
    return body.currencies.map(({ name }: { name: string }) => name);
  };

  it("writes a document that differs in nothing from its project, and makes another one equal", async () => {
    const out = join(dir.path, "out.json");
    assert.deepEqual(await laurel(["export", "--out", out, ...as()]), { code: 0, text: "" });
    const { text } = await laurel(["export", ...as()]);
    assert.equal(await readFile(out, "utf8"), text);
    const { body } = await api.get("/api/v1/config/export", { key: tenant.key });
    assert.deepEqual(JSON.parse(text), body);
    assert.deepEqual(await laurel(["diff", out, ...as()]), { code: 0, text: "no difference\n" });
    const other = await aTenant(api);
    const made = await laurel(["import", out, "--yes", ...as(other.key)]);
    assert.deepEqual(made, { code: 0, text: "+ currencies coins\n1 added, 0 changed, 0 archived\n" });
    assert.equal((await laurel(["diff", out, ...as(other.key)])).code, 0);
  });

  it("lists what differs, with the fields, and ends with 4", async () => {
    const file = await changed();
    assert.deepEqual(await laurel(["diff", file, ...as()]), { code: 4, text: TWO_CHANGES });
    const json = await laurel(["diff", file, "--json", ...as()]);
    assert.equal(json.code, 4);
    assert.deepEqual(JSON.parse(json.text).changes[0], {
      section: "currencies",
      key: "coins",
      action: "UPDATE",
      fields: ["name"],
    });
    const gems = JSON.stringify({ ...EDITED, currencies: [{ key: "gems", name: "Gems" }] });
    const pruned = await laurel(["diff", "-", "--prune", ...as()], gems);
    assert.deepEqual(pruned, {
      code: 4,
      text: "+ currencies gems\n- currencies coins\n1 added, 0 changed, 1 archived\n",
    });
    const settings = await aFile({
      format: "laurel/1",
      settings: { maxBoostFactor: 4 },
      timezone: "Asia/Tokyo",
    });
    const { text } = await laurel(["diff", settings, ...as()]);
    assert.match(text, /^~ timezone: timezone\n~ settings: maxBoostFactor\n/);
  });

  it("changes nothing with --dry-run, and without --yes where nobody can be asked", async () => {
    const file = await changed();
    assert.deepEqual(await laurel(["import", file, "--dry-run", ...as()]), { code: 0, text: TWO_CHANGES });
    const dry = await laurel(["import", file, "--dry-run", "--json", ...as()]);
    assert.equal(JSON.parse(dry.text).applied, false);
    const unasked = await laurel(["import", file, ...as()]);
    assert.equal(unasked.code, 2);
    assert.match(unasked.text, /no terminal to ask on: --yes/);
    assert.deepEqual(await currencies(), ["Coins"]);
  });

  it("shows the changes on a terminal and makes them after a yes only", async () => {
    const file = await changed();
    const type = (answer: string) =>
      onTerminal(["config", "import", file, ...as()], {}, { question: /Import\? \[y\/N\]/, answer });
    const declined = await type("\n");
    assert.equal(declined.code, 1, declined.text);
    assert.ok(declined.text.startsWith(TWO_CHANGES), declined.text);
    assert.match(declined.text, /nothing was changed\n$/);
    assert.deepEqual(await currencies(), ["Coins"]);
    const agreed = await type("y\n");
    assert.equal(agreed.code, 0, agreed.text);
    assert.match(agreed.text, /imported\n$/);
    assert.deepEqual(await currencies(), ["Gold"]);
  });

  it("says which project an import of a person is for, and which one a test key has", async () => {
    const file = await changed();
    const person = ["--token", tenant.token, "--url", api.url];
    const made = await laurel(["import", file, "--yes", "--project", tenant.projectId, ...person]);
    assert.deepEqual(made, { code: 0, text: TWO_CHANGES });
    const nowhere = await laurel(["diff", file, ...person]);
    assert.deepEqual(nowhere, { code: 2, text: "error: an access token needs --project\n" });
    const foreign = await laurel(["diff", file, "--project", (await aTenant(api)).projectId, ...person]);
    assert.equal(foreign.code, 1);
    assert.match(foreign.text, /^error: 404 /);
    const stale = await laurel([
      "diff",
      file,
      "--token",
      "x.y.z",
      "--project",
      tenant.projectId,
      "--url",
      api.url,
    ]);
    assert.match(stale.text, /^error: 401 .*check --token/);
    const test = await aKey(api, { ...tenant, environment: "test" });
    assert.match((await laurel(["diff", file, ...as(test)])).text, /^a test key: .*sandbox$/m);
  });

  it("ends with 1 and names every field that the server refuses", async () => {
    const bad = await changed({ currencies: [{ key: "NO", name: 1 }] });
    for (const args of [["diff"], ["import", "--yes"]]) {
      const { code, text } = await laurel([...args, bad, ...as()]);
      assert.equal(code, 1);
      assert.match(text, /^error: 400 /);
      assert.match(text, /^ {2}document\.currencies\.0\.key: /m);
      assert.match(text, /^ {2}document\.currencies\.0\.name: /m);
    }
    const rewards = [{ key: "a", name: "A", kind: "BUNDLE", bundle: { badges: [{ badgeKey: "none" }] } }];
    const unknown = await laurel(["import", await changed({ rewards }), "--yes", ...as()]);
    assert.match(unknown.text, /^error: 400 UNKNOWN_REFERENCE rewards a: bundle\.badges\.0\.badgeKey: /);
    const reader = await aKey(api, { ...tenant, scopes: ["config:read"] });
    const refused = await laurel(["import", await changed(), "--yes", ...as(reader)]);
    assert.match(refused.text, /^error: 403 INSUFFICIENT_SCOPE .*config:manage/);
    assert.deepEqual(await currencies(), ["Coins"]);
  });

  it("ends with 2 when it is misused, and with 1 when no server answers", async () => {
    const file = await changed();
    const misuses: [args: string[], told: RegExp][] = [
      [["diff"], /Usage: laurel config diff/],
      [["bogus"], /Usage: laurel config/],
      [["diff", file], /a key or an access token is needed: --key-file/],
      [["diff", file, "--token", "t", ...as()], /a key or an access token is needed, not both/],
      [["diff", file, "--project", "p", ...as()], /--project is for access tokens/],
      [["diff", join(dir.path, "none"), ...as()], /cannot read \S+none: ENOENT/],
      [["diff", await aFile("{ no", "no.json"), ...as()], /no\.json is not JSON: /],
    ];
    for (const [args, told] of misuses) {
      const { code, text } = await laurel(args);
      assert.equal(code, 2, `${args.join(" ")}: ${text}`);
      assert.match(text, told);
    }
    const url = `http://127.0.0.1:${await freePort()}`;
    const { code, text } = await laurel(["export", "--key", tenant.key, "--url", url]);
    assert.deepEqual([code, text], [1, `error: no answer from ${url}: is the server running?\n`]);
  });
});
