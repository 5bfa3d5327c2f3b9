// Airflow puts its own Chakra components on the page; using them keeps its look, in light and dark.
import type { ComponentType, PropsWithChildren } from "react";

type Any = ComponentType<PropsWithChildren<Record<string, unknown>>>;
type Parts = Record<string, Any>;

const host = (globalThis as unknown as { ChakraUI: Record<string, unknown> }).ChakraUI;

export const { Alert, Badge, Box, Button, Code, Flex, Grid, Heading, HStack, Input, NativeSelect, Spinner, Table, Text } =
  host as unknown as Record<"Badge" | "Box" | "Button" | "Code" | "Flex" | "Grid" | "Heading" | "HStack" | "Input" | "Spinner" | "Text", Any> &
    Record<"Alert" | "NativeSelect" | "Table", Parts>;
