import type * as client from "openid-client";

/** How long the issuer's metadata is cached; its keys have a cache of their own. */
const METADATA_MS = 3_600_000;

/**
 * Caches the discovered metadata; a failure is not cached, and until a refresh succeeds the old one is used.
 */
export const createDiscovery = (
  load: () => Promise<client.Configuration>,
): (() => Promise<client.Configuration>) => {
  let known: { config: client.Configuration; untilMs: number } | undefined;
  let loading: Promise<client.Configuration> | undefined;
  const renew = async (): Promise<client.Configuration> => {
    try {
      const config = await load();
      known = { config, untilMs: performance.now() + METADATA_MS };
      return config;
    } catch (error) {
      if (known) return known.config;
      throw error;
    } finally {
      loading = undefined;
    }
  };
  return async () => {
    if (known && known.untilMs > performance.now()) return known.config;
    loading ??= renew();
    return loading;
  };
};
