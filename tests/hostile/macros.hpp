// ufp4 - macros of other headers, which a program may have defined before it includes ufp4.
// SPDX-License-Identifier: Apache-2.0
//
// Included after the standard headers, which handle macros themselves. Macros that their owner uses as names expand as
// there; the others expand to something that is not valid C++.
#pragma once

// windows.h and its includes; <math.h> before C++
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define cdecl
#define hyper long
#define small char
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define VOID void
#define CONST const
#define STRICT 1
#define BOOL int
#define TRUE 1
#define FALSE 0
#define DELETE 0x00010000L
#define ERROR 0
#define NO_ERROR 0
#define CALLBACK
#define PASCAL
#define DOMAIN 1
#define SING 2
#define OVERFLOW 3
#define UNDERFLOW 4
#define TLOSS 5
#define PLOSS 6
#define rad1 -!-

// <complex.h>, <termios.h>, the <ctype.h> of embedded C libraries, <sys/sysmacros.h>
#define I 1i
#define B0 0000000
#define B50 0000001
#define ECHO 0000010
#define NL1 0000400
#define CR1 0001000
#define _U 01
#define _L 02
#define _N 04
#define _S 010
#define _P 020
#define _C 040
#define _X 0100
#define _B 0200
#define major(device) -!-
#define minor(device) -!-
#define makedev(a, b) -!-

// X11, Qt, Objective-C, macOS's AssertMacros.h, the BSDs' <sys/param.h>
#define None 0L
#define Bool int
#define True 1
#define False 0
#define Status int
#define Success 0
#define Always 2
#define Complex 0
#define slots
#define signals public
#define emit
#define foreach -!-
#define forever for (;;)
#define nil 0
#define YES 1
#define NO 0
#define check(x) -!-
#define verify(x) -!-
#define require(x) -!-
#define ABS(x) -!-
#define MIN(a, b) -!-
#define MAX(a, b) -!-
#define BIT(n) -!-
#define ALIGN(x) -!-
#define PACKED -!-
#define EPS -!-
#define PI 3.14159265358979

// a project's own
#undef assert
#define assert(x) -!-
#define ASSERT(x) -!-
#define CHECK(x) -!-
#define UNUSED -!-
#define INLINE -!-
#define FORCE_INLINE -!-
#define NAN_BITS -!-

// what g++ and clang predefine in their default mode, -std=gnu++20
#undef linux
#undef unix
#define linux 1
#define unix 1
