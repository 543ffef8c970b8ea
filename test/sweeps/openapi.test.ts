import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getHttpOperationsFromSpec } from "@stoplight/prism-http";
import { createServer as createProxy } from "@stoplight/prism-http-server";
import { openApiDocument } from "../../src/http/openapi.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { anAdmin } from "../support/app/admin.ts";
import { startApp, type TestApp } from "../support/app/app.ts";
import { aSide } from "../support/app/sides.ts";
import { clientOf } from "../support/http/client.ts";
import { freePort } from "../support/processes/process.ts";
import { type Call, credentialsFor, forgetLimits, operations } from "../support/operations/operations.ts";

/** Prism follows a redirection itself, to where nobody answers. */
const REDIRECTS: ReadonlySet<string> = new Set(["startOAuth", "startSso"]);

type Proxy = { url: string; close(): Promise<unknown> };
const silent = () => undefined;
const logger = { info: silent, warn: silent, error: silent, debug: silent, success: silent, trace: silent };

/** Prism between a client and `upstream`, which judges requests and answers by the document. */
const startPrism = async (upstream: string): Promise<Proxy> => {
  const document = JSON.parse(JSON.stringify(openApiDocument(routes))) as object;
  const config = { checkSecurity: true, validateRequest: true, validateResponse: true, errors: false };
  const proxy = createProxy(await getHttpOperationsFromSpec(document), {
    components: { logger: { ...logger, child: () => logger } as never },
    cors: false,
    config: { ...config, mock: { dynamic: false }, isProxy: true, upstream: new URL(`${upstream}/api/v1`) },
  } as never);
  return { url: await proxy.listen(await freePort(), "127.0.0.1"), close: () => proxy.close() };
};

/** The call's own token in place of the user's. */
const tokenOf = ({ token: own }: Call, { token }: { token?: string }) =>
  own === undefined || token === undefined ? {} : { token: own };
/** Who goes by the document sends no body where it shows none. */
const bodyOf = ({ body: schema }: AnyRoute, { body }: Call) => (schema === undefined ? {} : { body });

const violationsOf = (headers: Headers): string => headers.get("sl-violations") ?? "";

describe("Prism", function () {
  this.timeout(400_000);
  let api: TestApp;
  let proxy: Proxy;
  before(async () => {
    api = await startApp();
    proxy = await startPrism(api.url);
  });
  after(() => proxy.close());

  it("sees no violation of the document in any operation, called by whoever it is open to", async () => {
    const side = await aSide(api);
    const { token: admin, adminId } = await anAdmin(api);
    const through = clientOf(proxy.url);
    const violations: string[] = [];
    for (const { route, call, success } of operations()) {
      // Clients of tests send no forms, and what is signed byte by byte is written anew on its way.
      if (REDIRECTS.has(route.id) || route.takesForm || route.signatureHeader !== undefined) continue;
      await forgetLimits(api, side, adminId);
      const superadmin = route.id === "superadminLogout" ? (await anAdmin(api)).token : admin;
      const credentials = credentialsFor(route, side, superadmin);
      const made = await call(side, credentials.key === undefined ? "user" : "key");
      const answer = await through.request(route.method.toUpperCase(), made.path, {
        ...credentials,
        ...tokenOf(made, credentials),
        ...bodyOf(route, made),
      });
      const seen = violationsOf(answer.headers);
      if (answer.status !== success || seen !== "")
        violations.push(`${route.id} ${answer.status} ${seen || JSON.stringify(answer.body)}`);
    }
    assert.deepEqual(violations, []);
  });

  it("would see one: whatever has a body is found wrong when the body is", async () => {
    const liar: Server = createServer((_request, response) => {
      response.setHeader("Content-Type", "application/json");
      response.end("7");
    });
    await once(liar.listen(0, "127.0.0.1"), "listening");
    const { port } = liar.address() as AddressInfo;
    const judge = await startPrism(`http://127.0.0.1:${port}`);
    const unseen: string[] = [];
    for (const { path, id, method, status = 200 } of routes.filter((route) => route.method === "get")) {
      if (status !== 200) continue;
      const answer = await fetch(judge.url + path.replaceAll(/\{\w+\}/g, "x"), { method });
      await answer.text();
      if (!violationsOf(answer.headers).includes('"response"')) unseen.push(id);
    }
    await judge.close();
    liar.close();
    assert.deepEqual(unseen, []);
  });
});
