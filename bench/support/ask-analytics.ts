import { END_MS } from "./analytics-questions.ts";
import type { Site } from "./setup.ts";

let asked = 0;

/**
 * Asks as if for the first time: of each moment there is an answer of its own. Returns the answer without
 * what is said of this reading of it; NaN ms: the database took more than 30 s.
 */
export const askOf = async (
  site: Site,
  { path, query }: { path: string; query: Record<string, string> },
): Promise<{ ms: number; body: object }> => {
  const asOf = new Date(END_MS + 3_600_000 + asked++).toISOString();
  const search = new URLSearchParams({ ...query, asOf }).toString();
  const startMs = performance.now();
  const response = await fetch(`${site.url}/api/v1/analytics/${path}?${search}`, {
    headers: { "X-API-Key": site.key },
  });
  const body = (await response.json()) as Record<string, unknown>;
  const ms = performance.now() - startMs;
  if (response.status === 503) return { ms: Number.NaN, body };
  if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(body)}`);
  const { asOf: _asOf, generatedAt: _at, cache: _cache, ...rest } = body;
  return { ms, body: rest };
};
