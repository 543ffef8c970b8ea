import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { openApiDocument } from "../../../src/http/openapi.ts";
import type { AnyRoute } from "../../../src/http/route.ts";
import { routes } from "../../../src/http/routes.ts";
import { anAdmin } from "../app/admin.ts";
import { startApp } from "../app/app.ts";
import { aSide } from "../app/sides.ts";
import { watchAnswers } from "../http/client.ts";
import { checkResponse, templateAt } from "../http/openapi-check.ts";
import { credentialsFor, forgetLimits, operations, send } from "../operations/operations.ts";
import { withPlaceholders } from "./placeholders.ts";
import { playScene } from "./scene.ts";
import { shorten, tells } from "./shorten.ts";

const EXAMPLES = join(import.meta.dirname, "../../../src/http/answer-examples.json");
const document = openApiDocument(routes);
/** An answer, the path that was asked, when it came, and whether in the scene. */
type Seen = { path: string; body: unknown; atMs: number; ofScene: boolean };
let isScene = true;
/** By operation the answer that tells most: of those of the scene, else of all. */
const best = new Map<string, Seen>();
/** The ids that were asked about, by what they stand behind in a path, such as /players. */
const asked = new Map<string, Set<string>>();

const barePath = (path: string): string => path.replace(/^\/api\/v1/, "").split("?", 1)[0]!;

const noteIds = (template: string, path: string): void => {
  const [names, parts] = [template.split("/"), barePath(path).split("/")];
  const at = names.findIndex((name) => name.startsWith("{"));
  if (at < 0) return;
  const before = names.slice(0, at).join("/");
  asked.set(before, (asked.get(before) ?? new Set()).add(parts[at]!));
};

/** Files of other types have no examples. */
const isJson = (body: unknown): boolean => body !== undefined && typeof body !== "string";

const note = (method: string, path: string, status: number, body: unknown): void => {
  const template = templateAt(document, method, path);
  if (status >= 300 || !isJson(body) || template === undefined) return;
  noteIds(template, path);
  const route = routes.find((one) => one.path === template && one.method === method.toLowerCase());
  if (!route) return;
  const known = best.get(route.id);
  if (known && known.ofScene && !isScene) return;
  if (!known || tells(body) > tells(known.body))
    best.set(route.id, { path, body, atMs: Date.now(), ofScene: isScene });
};

const isEmptyList = ({ id }: AnyRoute): boolean => {
  const { data } = (best.get(id)?.body ?? {}) as { data?: unknown };
  return Array.isArray(data) && data.length === 0;
};

/** The paths of an operation with every other id that has been asked about. */
const otherPaths = ({ id, path: template }: AnyRoute): string[] => {
  const path = best.get(id)!.path.replace(/^\/api\/v1/, "");
  const [names, parts] = [template.split("/"), path.split("/")];
  const at = names.findIndex((name) => name.startsWith("{"));
  if (at < 0) return [path.split("?", 1)[0]!];
  return [...(asked.get(names.slice(0, at).join("/")) ?? [])].map((one) => parts.with(at, one).join("/"));
};

/** Fields left empty: tools that read the document take what is in them for schemas of its own. */
const EMPTY: Readonly<Record<string, object>> = {
  listWebhookEventTypes: { data: [] },
  getRuleCatalogue: { definitions: {} },
};

const exampleOf = ({ id, path, method, status = 200 }: AnyRoute): unknown => {
  const { body, atMs } = best.get(id)!;
  const isValid = (answer: unknown): boolean => {
    try {
      checkResponse(document, method, path, status, answer);
      return true;
    } catch {
      return false;
    }
  };
  return withPlaceholders(shorten(EMPTY[id] ? Object.assign({}, body, EMPTY[id]) : body, isValid), atMs);
};

/** Run by `npm run examples`, not by `npm test`. */
describe("the examples of answers", function () {
  this.timeout(900_000);
  it("are recorded", async () => {
    watchAnswers(note);
    const api = await startApp();
    await playScene(api);
    isScene = false;
    const side = await aSide(api);
    const { token: admin, adminId } = await anAdmin(api);
    for (const { route, call } of operations()) {
      await forgetLimits(api, side, adminId);
      const own = route.id === "superadminLogout" ? (await anAdmin(api)).token : admin;
      const credentials = credentialsFor(route, side, own);
      await send(api, route, await call(side, credentials.key === undefined ? "user" : "key"), credentials);
    }
    // What was empty then may have something in it by now, or elsewhere.
    for (const route of routes.filter((one) => one.method === "get" && best.has(one.id))) {
      if (!isEmptyList(route)) continue;
      await forgetLimits(api, side, adminId);
      for (const path of otherPaths(route)) {
        if (isEmptyList(route)) await send(api, route, { path }, credentialsFor(route, side, admin));
      }
    }
    const examples = routes.filter(({ id }) => best.has(id)).map((route) => [route.id, exampleOf(route)]);
    writeFileSync(EXAMPLES, `${JSON.stringify(Object.fromEntries(examples), null, 2)}\n`);
  });
});
