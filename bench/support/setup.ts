import { randomUUID } from "node:crypto";

type Body = Record<string, unknown>;

/** A project of a new tenant, with a key for everything. */
export type Site = { url: string; projectId: string; key: string };

const call = async (url: string, body: Body, headers: Record<string, string>): Promise<Body> => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as Body;
  if (!response.ok) throw new Error(`${url}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
};

/** How often and how long a starting server is asked, in ms. */
const POLL_MS = 10;
const READY_MAX_MS = 30_000;

/** Waits until the server answers that it is ready. */
export const untilReady = async (url: string): Promise<void> => {
  const deadline = performance.now() + READY_MAX_MS;
  for (;;) {
    const isReady = await fetch(`${url}/health/ready`).then(
      (response) => response.ok,
      () => false,
    );
    if (isReady) return;
    if (performance.now() > deadline) throw new Error(`${url} did not become ready`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
};

/**
 * Registers a tenant with a project and a key over the API, as an integrator would.
 * @param address whose registration it is, where the server trusts this machine's proxies: one address may
 * register few
 */
export const createSite = async (url: string, address?: string): Promise<Site> => {
  const owner = {
    email: `${randomUUID()}@example.com`,
    password: "Correct-horse-7",
    name: "Bench",
    tenantName: "Bench",
  };
  const from: Record<string, string> = address === undefined ? {} : { "X-Forwarded-For": address };
  const { accessToken } = await call(`${url}/api/v1/auth/register`, owner, from);
  const Authorization = `Bearer ${String(accessToken)}`;
  const { id } = await call(`${url}/api/v1/projects`, { name: "Bench" }, { Authorization });
  const key = { name: "Bench", scopes: ["*"] };
  const made = await call(`${url}/api/v1/projects/${String(id)}/api-keys`, key, { Authorization });
  return { url, projectId: String(id), key: String(made["key"]) };
};

/** Posts with the site's key. @throws Error unless the answer is a success */
export const post = ({ url, key }: Site, path: string, body: Body): Promise<Body> =>
  call(`${url}/api/v1${path}`, body, { "X-API-Key": key });

/** Waits until `check` says yes. */
export const poll = async (check: () => Promise<boolean>): Promise<void> => {
  while (!(await check())) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
};
