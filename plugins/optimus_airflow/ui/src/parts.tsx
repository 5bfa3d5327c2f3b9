// What every view needs: its states, tables, and a curve.
import type { ReactNode } from "react";

import type { Polled } from "./api";
import { Alert, Box, Heading, Spinner, Table, Text } from "./chakra";

const STALE_SECONDS = 60;
const SENTENCE_FROM = 40;

export const Note = ({ status, children }: { status: "error" | "warning" | "info"; children: ReactNode }) => (
  <Alert.Root status={status} my={2} role={status === "error" ? "alert" : "status"}>
    <Alert.Indicator />
    <Alert.Title>{children}</Alert.Title>
  </Alert.Root>
);

/** Shows what came, or says in words why nothing did. */
export const Shown = <T,>({ of, children }: { of: Polled<T>; children: (data: T) => ReactNode }) => {
  if (of.data === null) {
    if (of.error === null) return <Box p={4} aria-busy="true"><Spinner size="sm" /> Loading…</Box>;
    if (of.error.status === 401) return <Note status="error">You are not signed in. Sign in to Airflow and reload.</Note>;
    return <Note status={of.error.status === 404 ? "info" : "error"}>{of.error.message}</Note>;
  }
  const age = of.at === null ? 0 : (Date.now() - of.at) / 1000;
  return (
    <>
      {(of.error !== null || age > STALE_SECONDS) && (
        <Note status="warning">
          Last update {age < 90 ? `${Math.round(age)} s` : `${Math.round(age / 60)} min`} ago. {of.error?.message}
        </Note>
      )}
      {children(of.data)}
    </>
  );
};

export const Part = ({ title, children }: { title: string; children: ReactNode }) => (
  <Box as="section" my={4}>
    <Heading as="h2" size="md" mb={2}>{title}</Heading>
    {children}
  </Box>
);

/** A sentence is not squeezed into a column of single words; the table scrolls. */
const widthOf = (cell: ReactNode) => (typeof cell === "string" && cell.length > SENTENCE_FROM ? "16rem" : undefined);

export const Rows = ({ head, rows, empty }: { head: string[]; rows: ReactNode[][]; empty: string }) =>
  rows.length === 0 ? <Text color="fg.muted">{empty}</Text> : (
    <Box overflowX="auto" tabIndex={0} role="region" aria-label={head.join(", ")}>
      <Table.Root size="sm">
        <Table.Header>
          <Table.Row>{head.map((each) => <Table.ColumnHeader key={each}>{each}</Table.ColumnHeader>)}</Table.Row>
        </Table.Header>
        <Table.Body>
          {rows.map((row, i) => (
            <Table.Row key={i}>{row.map((cell, j) => <Table.Cell key={j} minW={widthOf(cell)}>{cell}</Table.Cell>)}</Table.Row>
          ))}
        </Table.Body>
      </Table.Root>
    </Box>
  );
