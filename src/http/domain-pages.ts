import { type Request, type RequestHandler, Router } from "express";
import type { App } from "../app.ts";
import { TOKEN_PAGES } from "../domain/accounts/email/templates/template.ts";
import { normaliseDomain } from "../domain/accounts/sso/domain-name.ts";
import { readChallenge } from "../domain/accounts/domains/challenges.ts";
import { isIn, isOfThisMachine, networkOf } from "../domain/accounts/rate-limits/ip-address.ts";
import { notFound } from "../domain/kernel/errors.ts";
import { clientIp } from "./caller.ts";
import { countAnonymous } from "./limits.ts";
import { customHostOf } from "./pin.ts";

const TOKEN = /^[A-Za-z0-9_-]{16,128}$/;

/** Answers the certificate authority that looks whether a domain leads here, whichever process ordered. */
const challenge =
  (app: App): RequestHandler =>
  async (request, response) => {
    const token = String(request.params["token"]);
    response.set(await countAnonymous(app, clientIp(app, request)));
    if (!TOKEN.test(token)) throw notFound("Page");
    const answer = await app.transactAs({ role: "accounts" })((work) => readChallenge(work, token));
    if (answer === undefined) throw notFound("Page");
    response.type("application/octet-stream").send(Buffer.from(answer));
  };

const FORWARDED = ["x-forwarded-for", "forwarded", "via"];

/** Whether a request comes from this machine or a proxy itself, not through one. */
const isOfProxy = (app: App, request: Request): boolean => {
  const ip = clientIp(app, request);
  const address = networkOf(ip);
  if (address === undefined || FORWARDED.some((name) => request.headers[name] !== undefined)) return false;
  return isOfThisMachine(ip) || isIn(address, app.config.trustedProxies);
};

/** Tells a proxy that gets certificates by itself whether it may get one for a name. */
const ask =
  (app: App): RequestHandler =>
  async (request, response) => {
    const { domain } = request.query;
    if (!isOfProxy(app, request) || typeof domain !== "string") throw notFound("Page");
    if (!(await app.domains.find(normaliseDomain(domain)))) throw notFound("Domain");
    response.json({ allowed: true });
  };

const noted =
  (route: string): RequestHandler =>
  (_request, response, next) => {
    Object.assign(response.locals, { route, group: "system" });
    next();
  };

/** Leads links of mails, which name a tenant's own domain, on to the console. */
const toConsole =
  ({ config }: App): RequestHandler =>
  (request, response, next) => {
    if (!customHostOf(response)) return next();
    const { pathname, search } = new URL(request.url, "http://localhost");
    response.status(302).set("Location", `${config.consoleUrl}${pathname}${search}`).end();
  };

/** The pages that certificates of custom domains need, and links in mails. */
export const domainPages = (app: App): Router => {
  const router = Router({ caseSensitive: true });
  if (app.config.domains?.acme) {
    const path = "/.well-known/acme-challenge/:token";
    router.get(path, noted(path), challenge(app));
  } else router.get("/internal/tls/ask", noted("/internal/tls/ask"), ask(app));
  for (const path of TOKEN_PAGES) router.get(path, noted(path), toConsole(app));
  return router;
};
