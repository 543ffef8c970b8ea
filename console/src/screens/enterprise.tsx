import { Alert, Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Answer, Row } from "../api/client.ts";
import { useApi, useCan } from "../api/hooks.ts";
import { words } from "../format.ts";
import { act, ask, create, OperationForm } from "../ui/operations.tsx";
import { Copyable, Empty, ErrorNote, Loaded, Read, SecretOnce, Section, Status, When } from "../ui/page.tsx";
import { PlainTable, Rows } from "../ui/table.tsx";
import { Facts } from "../ui/cells.tsx";

/** What of a provider its form sends. */
const OF_PROVIDER =
  /^(provider|displayName|saml(EntityId|SsoUrl|Certificate|IdpInitiated)|oidc(Issuer|ClientId|Scopes)|autoProvision|defaultRole|allowedDomains|enforceSso|breakGlassUserId|status)$/;

const FIRST = [
  "provider",
  "displayName",
  "oidcIssuer",
  "oidcClientId",
  "oidcClientSecret",
  "allowedDomains",
  "enforceSso",
];

export const Sso = () => {
  const sso = useApi("getSso");
  const can = useCan();
  const [tested, setTested] = useState<Answer<"testSso">>();
  const { data } = sso;
  if (sso.error && sso.error.status !== 404) return <ErrorNote error={sso.error} />;
  const given = Object.entries(data ?? {}).filter(
    ([name, value]) => value !== null && OF_PROVIDER.test(name),
  );
  return (
    <Stack>
      <Section
        title={data ? "Your identity provider" : "Connect your identity provider"}
        actions={
          data && [
            act("testSso", "Test", { onDone: setTested }),
            ask("deleteSso", "Switch off", {
              title: "Switch single sign-on off?",
              done: "Single sign-on is off",
              text: "Members sign in by password again.",
            }),
          ]
        }
      >
        {tested?.checks.map(({ name, ok, message }) => (
          <Text key={name}>{`${ok ? "✓" : "✗"} ${words(name)}: ${message}`}</Text>
        ))}
        {can("putSso") ? (
          <OperationForm
            id="putSso"
            initial={data ? Object.fromEntries(given) : { provider: "OIDC", displayName: "" }}
            first={FIRST}
            hidden={["providerType", "type"]}
            key={data?.updatedAt ?? "new"}
          />
        ) : (
          <Text>Only an owner changes this.</Text>
        )}
      </Section>
      <Rows
        section="Domains of email addresses"
        beside={create("addSsoDomain", "Claim a domain", {
          submit: "Claim",
          done: "Add the TXT record now",
        })}
        id="listSsoDomains"
        empty="No domains yet"
        hint="People whose address is of a domain that is yours sign in through your provider."
        columns={{
          Domain: "domain",
          Status: "status",
          "TXT record": ({ txtName, txtValue, status }) =>
            status === "PENDING" && <Copyable value={`${txtName}  ${txtValue}`} />,
        }}
        actions={({ id, domain, status }) => [
          status === "PENDING" &&
            act("verifySsoDomain", "Look now", { path: { domainId: id }, done: "Looked", isMain: true }),
          ask("removeSsoDomain", "Remove", { path: { domainId: id }, of: domain }),
        ]}
      />
      <Rows
        section="Sign-ins that failed"
        id="listSsoFailures"
        empty="None"
        columns={{ Last: "lastAt", Why: "message", Who: "email", Times: "times" }}
      />
    </Stack>
  );
};

export const Scim = () => {
  const can = useCan();
  const [token, setToken] = useState<string>();
  return (
    <Read id="getScim">
      {({ baseUrl, tokens, defaultRole, groups }) => (
        <Stack>
          {token && <SecretOnce title="The token for your identity provider" value={token} />}
          <Section title="Address for your identity provider">
            <Copyable value={baseUrl} />
          </Section>
          <PlainTable
            section="Tokens"
            beside={create("createScimToken", "New token", {
              submit: "Make the token",
              done: "",
              onDone: (answer) => setToken(answer.token),
            })}
            rows={tokens}
            empty="No tokens yet"
            columns={{ Name: "name", Status: "status", "Last used": "lastUsedAt", Expires: "expiresAt" }}
            actions={({ id, name, status }) =>
              status === "ACTIVE" && ask("revokeScimToken", "Revoke", { path: { tokenId: id }, of: name })
            }
          />
          {can("putScim") && (
            <Section title="Roles by group">
              <OperationForm id="putScim" initial={{ defaultRole, groups }} />
            </Section>
          )}
        </Stack>
      )}
    </Read>
  );
};

export const Domains = () => {
  const domains = useApi("listCustomDomains", {}, { refetchInterval: 10_000 });
  return (
    <Section
      title="Your own domains"
      actions={create("addCustomDomain", "Add a domain", {
        submit: "Add",
        done: "Set its DNS records now",
      })}
    >
      <Loaded query={domains}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No domains yet">Game clients reach this server at an address of yours.</Empty>
          ) : (
            data.map((one) => <Domain key={one.id} of={one} />)
          )
        }
      </Loaded>
    </Section>
  );
};

const Domain = ({ of }: { of: Row<"listCustomDomains"> }) => {
  const { id, domain, status, verification, checks, certificate, sslError } = of;
  const { txtName, txtValue, cnameTarget, aRecords } = verification;
  const records = [
    `${txtName}  TXT  ${txtValue}`,
    ...(cnameTarget ? [`${domain}  CNAME  ${cnameTarget}`] : []),
    ...aRecords.map((address: string) => `${domain}  A  ${address}`),
  ];
  const stateOf = (check: string) => <Status value={check === "OK" ? "VERIFIED" : check} />;
  return (
    <Section
      title={domain}
      actions={[
        act("verifyCustomDomain", "Look now", { path: { domainId: id }, done: "Looked" }),
        ask("removeCustomDomain", "Remove", {
          path: { domainId: id },
          of: domain,
          name: domain,
          text: "Clients that use it do not reach the server any more.",
        }),
      ]}
    >
      <Facts
        of={of}
        show={{
          Status: "status",
          Certificate: "sslStatus",
          "TXT record": () => stateOf(checks.txt),
          "Leads here": () => stateOf(checks.routing),
          "Valid until": () => <When at={certificate?.notAfter} />,
        }}
      />
      {(checks.error ?? sslError) && <Alert color="red">{checks.error ?? sslError}</Alert>}
      {status !== "ACTIVE" && <Copyable value={records.join("\n")} />}
    </Section>
  );
};
