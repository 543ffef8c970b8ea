import { Act } from "../ui/act.tsx";
import { Alert, Button, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useAct, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded } from "../ui/page.tsx";
import { Confirm, Copyable, Facts, SecretOnce, Section, Status, When } from "../ui/small.tsx";
import { PlainTable } from "../ui/table.tsx";

export const Sso = () => {
  const sso = useApi("getSso");
  const domains = useApi("listSsoDomains");
  const failures = useApi("listSsoFailures");
  const can = useCan();
  const test = useAct("testSso");
  const removeDomain = useAct("removeSsoDomain", { done: "Removed" });
  const remove = useAct("deleteSso", { done: "Single sign-on is off" });
  const data = sso.data as any;
  if (sso.error && sso.error.status !== 404) return <ErrorNote error={sso.error} />;
  const initial = data
    ? Object.fromEntries(
        Object.entries(data).filter(
          ([name, value]) =>
            value !== null &&
            /^(provider|displayName|saml(EntityId|SsoUrl|Certificate|IdpInitiated)|oidc(Issuer|ClientId|Scopes)|autoProvision|defaultRole|allowedDomains|enforceSso|breakGlassUserId|status)$/.test(
              name,
            ),
        ),
      )
    : { provider: "OIDC", displayName: "" };
  return (
    <Stack>
      <Section
        title={data ? "Your identity provider" : "Connect your identity provider"}
        actions={
          data && (
            <>
              <Button size="xs" variant="default" onClick={() => test.mutate({})} loading={test.isPending}>
                Test
              </Button>
              {can("deleteSso") && (
                <Confirm
                  label="Switch off"
                  title="Switch single sign-on off?"
                  onConfirm={() => remove.mutateAsync({})}
                >
                  Members sign in by password again.
                </Confirm>
              )}
            </>
          )
        }
      >
        {test.data?.checks.map(({ name, ok, message }) => (
          <Text size="sm" key={name}>{`${ok ? "✓" : "✗"} ${words(name)}: ${message}`}</Text>
        ))}
        {can("putSso") ? (
          <OperationForm
            id="putSso"
            initial={initial}
            first={[
              "provider",
              "displayName",
              "oidcIssuer",
              "oidcClientId",
              "oidcClientSecret",
              "allowedDomains",
              "enforceSso",
            ]}
            hidden={["providerType", "type"]}
            key={data?.updatedAt ?? "new"}
          />
        ) : (
          <Text size="sm">Only an owner changes this.</Text>
        )}
      </Section>
      <Section
        title="Domains of email addresses"
        actions={
          can("addSsoDomain") && (
            <FormButton
              id="addSsoDomain"
              label="Claim a domain"
              size="xs"
              submit="Claim"
              done="Add the TXT record now"
            />
          )
        }
      >
        <Loaded query={domains} lines={2}>
          {({ data: rows }) =>
            rows.length === 0 ? (
              <Empty title="No domains yet">
                People whose address is of a domain that is yours sign in through your provider.
              </Empty>
            ) : (
              <PlainTable
                name="Domains"
                rows={rows}
                columns={[
                  { title: "Domain", cell: ({ domain }) => domain },
                  { title: "Status", cell: ({ status }) => <Status value={status} /> },
                  {
                    title: "TXT record",
                    cell: ({ txtName, txtValue, status }) =>
                      status === "PENDING" && <Copyable value={`${txtName}  ${txtValue}`} />,
                  },
                ]}
                actions={({ id, domain, status }) => (
                  <>
                    {status === "PENDING" && (
                      <Act id="verifySsoDomain" path={{ domainId: id }} done="Looked" isMain>
                        Look now
                      </Act>
                    )}
                    <Confirm
                      label="Remove"
                      size="compact-xs"
                      title={`Remove ${domain}?`}
                      onConfirm={() => removeDomain.mutateAsync({ path: { domainId: id } })}
                    />
                  </>
                )}
              />
            )
          }
        </Loaded>
      </Section>
      <Section title="Sign-ins that failed">
        <Loaded query={failures} lines={2}>
          {({ data: rows }) =>
            rows.length === 0 ? (
              <Empty title="None" />
            ) : (
              <PlainTable
                name="Failures"
                rows={rows}
                keyOf={({ requestId }) => requestId}
                columns={[
                  { title: "Last", cell: ({ lastAt }) => <When at={lastAt} /> },
                  { title: "Why", cell: ({ message }) => message },
                  { title: "Who", cell: ({ email }) => email },
                  { title: "Times", cell: ({ times }) => number(times), isNumber: true },
                ]}
              />
            )
          }
        </Loaded>
      </Section>
    </Stack>
  );
};

export const Scim = () => {
  const scim = useApi("getScim");
  const can = useCan();
  const [token, setToken] = useState<string>();
  const revoke = useAct("revokeScimToken", { done: "Revoked" });
  return (
    <Loaded query={scim}>
      {(data) => (
        <Stack>
          {token && <SecretOnce title="The token for your identity provider" value={token} />}
          <Section title="Address for your identity provider">
            <Copyable value={data.baseUrl} />
          </Section>
          <Section
            title="Tokens"
            actions={
              can("createScimToken") && (
                <FormButton
                  id="createScimToken"
                  label="New token"
                  size="xs"
                  submit="Make the token"
                  done=""
                  onDone={(answer) => setToken(answer.token)}
                />
              )
            }
          >
            {data.tokens.length === 0 ? (
              <Empty title="No tokens yet" />
            ) : (
              <PlainTable
                name="Tokens"
                rows={data.tokens}
                columns={[
                  { title: "Name", cell: ({ name }) => name },
                  { title: "Status", cell: ({ status }) => <Status value={status} /> },
                  { title: "Last used", cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
                  { title: "Expires", cell: ({ expiresAt }) => <When at={expiresAt} /> },
                ]}
                actions={({ id, name, status }) =>
                  status === "ACTIVE" && (
                    <Confirm
                      label="Revoke"
                      size="compact-xs"
                      title={`Revoke ${name}?`}
                      onConfirm={() => revoke.mutateAsync({ path: { tokenId: id } })}
                    />
                  )
                }
              />
            )}
          </Section>
          {can("putScim") && (
            <Section title="Roles by group">
              <OperationForm id="putScim" initial={{ defaultRole: data.defaultRole, groups: data.groups }} />
            </Section>
          )}
        </Stack>
      )}
    </Loaded>
  );
};

export const Domains = () => {
  const domains = useApi("listCustomDomains", {}, { refetchInterval: 10_000 });
  const can = useCan();
  const remove = useAct("removeCustomDomain", { done: "Removed" });
  return (
    <Section
      title="Your own domains"
      actions={
        can("addCustomDomain") && (
          <FormButton
            id="addCustomDomain"
            label="Add a domain"
            size="xs"
            submit="Add"
            done="Set its DNS records now"
          />
        )
      }
    >
      <Loaded query={domains}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No domains yet">Game clients reach this server at an address of yours.</Empty>
          ) : (
            data.map(({ id, domain, status, sslStatus, verification, checks, certificate, sslError }) => (
              <Section
                key={id}
                title={domain}
                actions={
                  <>
                    <Act id="verifyCustomDomain" path={{ domainId: id }} done="Looked">
                      Look now
                    </Act>
                    <Confirm
                      label="Remove"
                      size="compact-xs"
                      title={`Remove ${domain}?`}
                      name={domain}
                      onConfirm={() => remove.mutateAsync({ path: { domainId: id } })}
                    >
                      Clients that use it do not reach the server any more.
                    </Confirm>
                  </>
                }
              >
                <Facts
                  of={{
                    Status: <Status value={status} />,
                    Certificate: <Status value={sslStatus} />,
                    "TXT record": <Status value={checks.txt === "OK" ? "VERIFIED" : checks.txt} />,
                    "Leads here": <Status value={checks.routing === "OK" ? "VERIFIED" : checks.routing} />,
                    "Valid until": <When at={certificate?.notAfter} />,
                  }}
                />
                {(checks.error ?? sslError) && <Alert color="red">{checks.error ?? sslError}</Alert>}
                {status !== "ACTIVE" && (
                  <Copyable
                    value={[
                      `${verification.txtName}  TXT  ${verification.txtValue}`,
                      ...(verification.cnameTarget ? [`${domain}  CNAME  ${verification.cnameTarget}`] : []),
                      ...verification.aRecords.map((address: string) => `${domain}  A  ${address}`),
                    ].join("\n")}
                  />
                )}
              </Section>
            ))
          )
        }
      </Loaded>
    </Section>
  );
};
