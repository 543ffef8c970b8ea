import {
  Alert,
  Button,
  Group,
  Progress,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Tabs,
  Text,
} from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../api/client.ts";
import { useAct, useApi } from "../api/hooks.ts";
import { readAccount, useAccount, useCan } from "../api/session.ts";
import { moment, number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, ErrorNote, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Copyable, Facts, SecretOnce, Section, Status, Tile, When } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { useSending } from "../ui/sending.ts";

export const Settings = ({ tab = "general" }: { tab?: string }) => {
  const [, go] = useLocation();
  const can = useCan();
  return (
    <Page title="Settings">
      <Tabs
        value={tab}
        onChange={(next) => go(next === "general" ? "/settings" : `/settings/${next}`)}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="general">General</Tabs.Tab>
          {can("getBillingUsage") && <Tabs.Tab value="billing">Billing and usage</Tabs.Tab>}
          {can("getSso") && <Tabs.Tab value="sso">Single sign-on</Tabs.Tab>}
          {can("getScim") && <Tabs.Tab value="scim">SCIM</Tabs.Tab>}
          {can("listCustomDomains") && <Tabs.Tab value="domains">Domains</Tabs.Tab>}
          {can("listEmailLogs") && <Tabs.Tab value="mails">Mails</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="general" pt="sm">
          <General />
        </Tabs.Panel>
        <Tabs.Panel value="billing" pt="sm">
          <Billing />
        </Tabs.Panel>
        <Tabs.Panel value="sso" pt="sm">
          <Sso />
        </Tabs.Panel>
        <Tabs.Panel value="scim" pt="sm">
          <Scim />
        </Tabs.Panel>
        <Tabs.Panel value="domains" pt="sm">
          <Domains />
        </Tabs.Panel>
        <Tabs.Panel value="mails" pt="sm">
          <Mails />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
};

const General = () => {
  const tenant = useApi("getTenant");
  const { user } = useAccount();
  const can = useCan();
  const again = useAct("requestApproval", { done: "Asked again" });
  const restore = useAct("restoreTenant", { done: "The account stays", onDone: () => void readAccount() });
  return (
    <Loaded query={tenant}>
      {(data) => (
        <Stack>
          <Facts
            of={{
              Plan: words(data.plan),
              Approval: <Status value={data.approvalStatus} />,
              Projects: `${number(data.usage.projects)} of ${data.limits.projects == null ? "any number" : number(data.limits.projects)}`,
              Members: `${number(data.usage.members)} of ${data.limits.members == null ? "any number" : number(data.limits.members)}`,
            }}
          />
          {data.approvalReason && (
            <Alert color="orange" title={data.approvalReason}>
              {can("requestApproval") && (
                <Button size="xs" variant="default" onClick={() => again.mutate({})}>
                  Ask for approval again
                </Button>
              )}
            </Alert>
          )}
          {can("updateTenant") && (
            <Section title="The account">
              <OperationForm
                id="updateTenant"
                initial={{ name: data.name, redirectUris: data.redirectUris }}
                first={["name", "requireSecondFactor"]}
                hidden={user.role === "OWNER" ? [] : ["redirectUris", "linkDomain", "requireSecondFactor"]}
                onDone={() => void readAccount()}
              />
            </Section>
          )}
          {can("deleteTenant") && (
            <Section title="Danger zone">
              <Group>
                <FormButton
                  id="transferOwnership"
                  label="Make somebody else the owner"
                  size="xs"
                  variant="default"
                  about="You become an administrator."
                  submit="Make owner"
                  done="Done"
                  onDone={() => void readAccount()}
                />
                <FormButton
                  id="deleteTenant"
                  label="Delete the account"
                  size="xs"
                  variant="default"
                  about={`Everything of ${data.name} is deleted in 30 days: projects, players, keys. Until then an owner can take it back.`}
                  submit="Delete in 30 days"
                  done="It is deleted in 30 days"
                />
                <Button size="xs" variant="default" onClick={() => restore.mutate({})}>
                  Take a deletion back
                </Button>
              </Group>
            </Section>
          )}
        </Stack>
      )}
    </Loaded>
  );
};

const Billing = () => {
  const usage = useApi("getBillingUsage");
  const subscription = useApi("getBillingSubscription");
  const plans = useApi("listBillingPlans");
  const can = useCan();
  const [interval, setInterval] = useState<"monthly" | "yearly">("monthly");
  const { error, isBusy, send } = useSending();
  const here = `${location.origin}/console/settings/billing`;
  const buy = (plan: string) =>
    send(async () => {
      const body = { plan: plan as "PRO", interval, successUrl: here, cancelUrl: here };
      location.assign((await call("createBillingCheckout", { body })).url);
    });
  const portal = send(async () => {
    location.assign((await call("createBillingPortal", { body: { returnUrl: here } })).url);
  });
  return (
    <Stack>
      <Loaded query={usage}>
        {({ items, periodStart, periodEnd }) => (
          <Section title={`Used from ${moment(periodStart)} to ${moment(periodEnd)}`}>
            <SimpleGrid cols={{ base: 1, sm: 2, md: 3 }}>
              {items.map(({ metric, used, limit, percent }) => (
                <Tile
                  key={metric}
                  name={words(metric)}
                  value={`${number(used)}${limit == null ? "" : ` of ${number(limit)}`}`}
                  note={
                    percent != null && (
                      <Progress
                        value={percent}
                        color={percent > 90 ? "red" : "teal"}
                        aria-label={`${percent} % used`}
                      />
                    )
                  }
                />
              ))}
            </SimpleGrid>
          </Section>
        )}
      </Loaded>
      {subscription.data && subscription.data.status !== "NONE" && (
        <Section
          title="Subscription"
          actions={
            can("createBillingPortal") && (
              <Button size="xs" onClick={() => portal()} loading={isBusy}>
                Payment and invoices
              </Button>
            )
          }
        >
          <Facts
            of={{
              Plan: words(subscription.data.plan),
              Status: <Status value={subscription.data.status} />,
              "Renews or ends": <When at={subscription.data.currentPeriodEnd} />,
              Ends: subscription.data.cancelAtPeriodEnd ? "yes, at the end of the period" : "no",
            }}
          />
        </Section>
      )}
      {error !== undefined && <ErrorNote error={error} />}
      <Loaded query={plans}>
        {({ data }) => (
          <Section
            title="Plans"
            actions={
              <SegmentedControl
                size="xs"
                data={[
                  { value: "monthly", label: "Monthly" },
                  { value: "yearly", label: "Yearly" },
                ]}
                value={interval}
                onChange={(next) => setInterval(next as typeof interval)}
                aria-label="Paid"
              />
            }
          >
            <PlainTable
              name="Plans"
              rows={data}
              keyOf={({ plan }) => plan}
              columns={[
                { title: "Plan", cell: ({ plan }) => words(plan) },
                {
                  title: "Events a month",
                  cell: ({ limits }) =>
                    limits.eventsPerMonth == null ? "any" : number(limits.eventsPerMonth),
                  isNumber: true,
                },
                {
                  title: "Projects",
                  cell: ({ limits }) => (limits.projects == null ? "any" : number(limits.projects)),
                  isNumber: true,
                },
                {
                  title: "Members",
                  cell: ({ limits }) => (limits.members == null ? "any" : number(limits.members)),
                  isNumber: true,
                  isWideOnly: true,
                },
                { title: "With", cell: ({ features }) => features.map(words).join(", "), isWideOnly: true },
                { title: "Price", cell: ({ prices }) => priceOf(prices, interval) },
              ]}
              actions={({ plan, prices }) =>
                can("createBillingCheckout") &&
                prices?.some((price: any) => price.interval === interval) &&
                plan !== usage.data?.plan && (
                  <Button size="compact-xs" onClick={() => buy(plan)()} loading={isBusy}>
                    Choose
                  </Button>
                )
              }
            />
          </Section>
        )}
      </Loaded>
    </Stack>
  );
};

const priceOf = (prices: any[] | null, interval: string): string => {
  const found = prices?.find((price) => price.interval === interval);
  if (!found) return "–";
  const amount = found.unitAmount ?? found.amount;
  return new Intl.NumberFormat(undefined, {
    style: "currency",
    currency: (found.currency ?? "eur").toUpperCase(),
  }).format(amount / 100);
};

const Sso = () => {
  const sso = useApi("getSso");
  const domains = useApi("listSsoDomains");
  const failures = useApi("listSsoFailures");
  const can = useCan();
  const test = useAct("testSso");
  const verify = useAct("verifySsoDomain", { done: "Looked" });
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
                      <Button size="compact-xs" onClick={() => verify.mutate({ path: { domainId: id } })}>
                        Look now
                      </Button>
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

const Scim = () => {
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

const Domains = () => {
  const domains = useApi("listCustomDomains", {}, { refetchInterval: 10_000 });
  const can = useCan();
  const verify = useAct("verifyCustomDomain", { done: "Looked" });
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
                    <Button
                      size="compact-xs"
                      variant="default"
                      onClick={() => verify.mutate({ path: { domainId: id } })}
                    >
                      Look now
                    </Button>
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

const Mails = () => (
  <List
    id="listEmailLogs"
    name="Mails"
    filters={["status", "template", "email"]}
    empty={<Empty title="No mails yet" />}
    columns={[
      { title: "When", cell: ({ createdAt }) => <When at={createdAt} /> },
      { title: "To", cell: ({ to }) => to },
      { title: "Subject", cell: ({ subject }) => subject },
      { title: "Status", cell: ({ status }) => <Status value={status} /> },
    ]}
  />
);
