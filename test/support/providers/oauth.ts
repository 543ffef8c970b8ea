import type { App } from "../../../src/app.ts";
import type { OAuthSettings, PasskeySettings } from "../../../src/config/sections.ts";
import { createOAuth } from "../../../src/platform/oauth.ts";
import { createPasskeys } from "../../../src/platform/passkeys.ts";
import type { TestApp } from "../app/app.ts";
import { anAddress, type Client } from "../http/client.ts";
import { serveApp } from "../http/serve-app.ts";
import { PERSON_HEADER } from "./openid-provider.ts";

/** The way back that the operator of the test server has registered, besides its own console. */
export const CONSOLE = "https://console.test.example/oauth?from=laurel";

export type OAuthServer = Client & { app: App; close(): Promise<void> };

/**
 * A second HTTP server over the database of the shared one, with sign-in by providers. The settings may
 * depend on the server's address.
 */
export const startOAuthServer = async (
  { app }: TestApp,
  settings: (publicUrl: string) => Promise<Omit<OAuthSettings, "redirectUris">>,
  parts: Partial<App["config"]> = {},
  passkeys?: (address: URL) => PasskeySettings,
): Promise<OAuthServer> =>
  serveApp(async (url) => {
    const oauth: OAuthSettings = {
      ...(await settings(url)),
      redirectUris: [CONSOLE, `${url}/console/oauth`],
    };
    const used = passkeys?.(new URL(url)) ?? app.config.passkeys;
    const config = { ...app.config, publicUrl: url, oauth, passkeys: used, ...parts };
    return { ...app, config, oauth: createOAuth(oauth, config), passkeys: createPasskeys(used) };
  });

export type Visit = { status: number; url: string; headers: Headers; body: string };

/** A browser: keeps cookies, follows redirects, and is one person at every provider. */
export type Browser = {
  /** One request, without following. */
  visit(url: string): Promise<Visit>;
  /** Follows redirects as far as `until` (default the console), which is not opened, or to an answer. */
  go(url: string, until?: string): Promise<Visit & { at: URL; visits: Visit[] }>;
  cookies: Map<string, Map<string, string>>;
};

export const aBrowser = (person = "nobody"): Browser => {
  const cookies: Browser["cookies"] = new Map();
  const address = anAddress();
  const keep = (origin: string, headers: Headers): void => {
    const jar = cookies.get(origin) ?? new Map<string, string>();
    for (const line of headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/max-age=0|expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    cookies.set(origin, jar);
  };
  const visit = async (url: string): Promise<Visit> => {
    const { origin } = new URL(url);
    const cookie = [...(cookies.get(origin) ?? [])].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, {
      redirect: "manual",
      headers: { "X-Forwarded-For": address, [PERSON_HEADER]: person, ...(cookie && { cookie }) },
    });
    keep(origin, response.headers);
    return { status: response.status, url, headers: response.headers, body: await response.text() };
  };
  const go: Browser["go"] = async (url, until = "https://") => {
    const visits: Visit[] = [];
    for (let next = url; visits.length < 20;) {
      const seen = await visit(next);
      visits.push(seen);
      const location = seen.headers.get("location");
      if (location === null) return { ...seen, at: new URL(next), visits };
      next = new URL(location, next).href;
      if (next.startsWith(until)) return { ...seen, at: new URL(next), visits };
    }
    throw new Error(`redirects without end: ${visits.map((one) => one.url).join(" -> ")}`);
  };
  return { visit, go, cookies };
};

/** The address that begins a flow. */
export const startUrl = (
  { url }: Client,
  provider: string,
  parameters: Record<string, string> = {},
): string => {
  const query = new URLSearchParams({ redirect_uri: CONSOLE, ...parameters });
  return `${url}/api/v1/auth/oauth/${provider}?${query.toString()}`;
};

/** What the console is told. */
export const told = (at: URL): Record<string, string> => {
  const { from: _from, ...parameters } = Object.fromEntries(at.searchParams);
  return parameters;
};
