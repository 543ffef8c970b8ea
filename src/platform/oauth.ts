import type { OAuthSettings, Settings } from "../config.ts";
import type { OAuthProviders, ProviderId } from "../domain/accounts/oauth/provider.ts";
import type { Callback } from "./oauth-fetch.ts";
import { createGithub } from "./oauth-github.ts";
import { createGoogle } from "./oauth-google.ts";

/** Creates the configured providers; sends no request before the first sign-in. */
export const createOAuth = (
  { google, github }: OAuthSettings,
  { publicUrl, isProduction }: Pick<Settings, "publicUrl" | "isProduction">,
): OAuthProviders => {
  const back = (id: ProviderId): Callback => ({
    // The address that the operator registers with the provider.
    url: `${publicUrl}/api/v1/auth/oauth/${id}/callback`,
    isProduction,
  });
  return {
    ...(google && { google: createGoogle(google, back("google")) }),
    ...(github && { github: createGithub(github, back("github")) }),
  };
};
